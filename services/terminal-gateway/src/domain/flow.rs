//! Both directions of one session: what is buffered, what may be sent, what is owed. No effects.
//!
//! Output: the host may send `window` bytes beyond what is granted. While a client is attached, granted is what it
//! acknowledged, so a slow client stops the shell; while none is, everything is granted at once, so the shell goes on
//! and the oldest output falls out of the ring. The ring is twice the window: after a resume it holds what the client
//! still lacks and what the host may already have sent.
//!
//! A tunnel loses nothing: without a client nothing is granted, so nothing falls out.
//!
//! Input is numbered, so that a client that sends again after a cut executes nothing twice.
use super::kind::Kind;
use super::ring::Ring;

/// Grants smaller than this part of the window wait for more, unless the shell has nothing left to say without them.
const GRANT_PARTS: u64 = 8;

/// A side broke the windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Violation(pub(crate) &'static str);

#[derive(Debug)]
struct Client {
    acked: u64,
    cursor: u64,
}

/// Where an attached client begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    /// Offset of the output that follows.
    pub(crate) output: u64,
    /// Offset that was asked for, when output from there on is lost.
    pub(crate) lost_from: Option<u64>,
    /// How much input is here.
    pub(crate) input: u64,
    /// How much input the host took.
    pub(crate) input_acked: u64,
}

/// State of both directions.
#[derive(Debug)]
pub(crate) struct Flow {
    kind: Kind,
    ring: Ring,
    client: Option<Client>,
    granted: u64,
    reported: u64,
    input: u64,
    input_acked: u64,
}

impl Flow {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            ring: Ring::new(kind.kept() as usize),
            client: None,
            granted: 0,
            reported: 0,
            input: 0,
            input_acked: 0,
        }
    }

    /// Output of the host.
    pub(crate) fn output(&mut self, data: &[u8]) -> Result<(), Violation> {
        if self.ring.end() + data.len() as u64 > self.granted + self.kind.output_window() {
            return Err(Violation("the host sent more output than granted"));
        }
        self.ring.push(data);
        if self.client.is_none() {
            self.go_on();
        }
        Ok(())
    }

    /// A client attaches that wants output from `received` on; `None` wants what there is.
    pub(crate) fn attach(&mut self, received: Option<u64>) -> Result<Begin, Violation> {
        let end = self.ring.end();
        let requested = received.unwrap_or(self.ring.start());
        if requested > end {
            return Err(Violation("received is beyond the output"));
        }
        let oldest = self
            .ring
            .start()
            .max(end.saturating_sub(self.kind.output_window()));
        let output = requested.max(oldest);
        self.client = Some(Client {
            acked: output,
            cursor: output,
        });
        Ok(Begin {
            output,
            lost_from: (output > requested).then_some(requested),
            input: self.input,
            input_acked: self.input_acked,
        })
    }

    /// The client is gone.
    pub(crate) fn detach(&mut self) {
        self.client = None;
        self.go_on();
    }

    /// Without a client a shell goes on, and a tunnel waits.
    fn go_on(&mut self) {
        if self.kind.resumes() {
            self.granted = self.ring.end();
        }
    }

    /// The client has shown all output before `offset`.
    pub(crate) fn ack(&mut self, offset: u64) -> Result<(), Violation> {
        let Some(client) = &mut self.client else {
            return Ok(());
        };
        if offset > client.cursor {
            return Err(Violation("received is beyond what was sent"));
        }
        client.acked = client.acked.max(offset);
        self.granted = self.granted.max(client.acked);
        Ok(())
    }

    /// What the host is to be reported it may go on from; `None` when it knows enough.
    pub(crate) fn grant(&mut self) -> Option<u64> {
        let due = self.granted - self.reported >= self.kind.output_window() / GRANT_PARTS
            || (self.granted > self.reported && self.granted == self.ring.end());
        due.then(|| {
            self.reported = self.granted;
            self.reported
        })
    }

    /// Whether there is output that may be sent to the client.
    pub(crate) fn has_output(&self) -> bool {
        self.sendable() > 0
    }

    fn sendable(&self) -> u64 {
        self.client.as_ref().map_or(0, |client| {
            let limit = self
                .ring
                .end()
                .min(client.acked + self.kind.output_window());
            limit.saturating_sub(client.cursor)
        })
    }

    /// The next output for the client with its offset.
    pub(crate) fn take(&mut self, most: usize) -> Option<(u64, Vec<u8>)> {
        let length = usize::try_from(self.sendable())
            .unwrap_or(usize::MAX)
            .min(most);
        let client = self.client.as_mut().filter(|_| length > 0)?;
        let offset = client.cursor;
        client.cursor += length as u64;
        Some((offset, self.ring.read(offset, length)))
    }

    /// Input of the client: the part that is new.
    pub(crate) fn input<'a>(&mut self, offset: u64, data: &'a [u8]) -> Result<&'a [u8], Violation> {
        let repeated = self
            .input
            .checked_sub(offset)
            .ok_or(Violation("input is missing before this offset"))?;
        let repeated = usize::try_from(repeated)
            .unwrap_or(usize::MAX)
            .min(data.len());
        let new = &data[repeated..];
        if self.input + new.len() as u64 - self.input_acked > self.kind.input_window() {
            return Err(Violation("input is beyond the window"));
        }
        self.input += new.len() as u64;
        Ok(new)
    }

    /// The host took all input before `offset`.
    pub(crate) fn input_acked(&mut self, offset: u64) -> Result<(), Violation> {
        if offset > self.input {
            return Err(Violation("the host took more input than there was"));
        }
        self.input_acked = self.input_acked.max(offset);
        Ok(())
    }

    /// All bytes of input and of output.
    pub(crate) fn carried(&self) -> (u64, u64) {
        (self.input, self.ring.end())
    }

    /// Bytes that are buffered and the client lacks.
    pub(crate) fn backlog(&self) -> u64 {
        let from = self
            .client
            .as_ref()
            .map_or(self.ring.start(), |client| client.cursor);
        self.ring.end() - from
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OUTPUT_WINDOW: u64 = Kind::Shell.output_window();
    const INPUT_WINDOW: u64 = Kind::Shell.input_window();
    const RING: u64 = 2 * OUTPUT_WINDOW;

    fn byte(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    fn bytes(from: u64, length: u64) -> Vec<u8> {
        (from..from + length).map(byte).collect()
    }

    #[test]
    fn f_01_a_client_that_acknowledges_nothing_stops_the_shell_at_one_window() {
        let mut flow = Flow::new(Kind::Shell);
        flow.attach(None).expect("attached");
        flow.output(&bytes(0, OUTPUT_WINDOW)).expect("one window");
        assert_eq!(
            flow.output(b"x"),
            Err(Violation("the host sent more output than granted"))
        );
        let mut sent = 0;
        while let Some((_, data)) = flow.take(32 << 10) {
            sent += data.len() as u64;
        }
        assert_eq!((sent, flow.grant()), (OUTPUT_WINDOW, None));
        flow.ack(10).expect("sent");
        assert_eq!(flow.grant(), None, "too little to be worth a message");
        flow.ack(OUTPUT_WINDOW).expect("sent");
        assert_eq!(flow.grant(), Some(OUTPUT_WINDOW));
        assert!(flow.ack(OUTPUT_WINDOW + 1).is_err());
    }

    #[test]
    fn a_shell_goes_on_while_nobody_is_attached_and_the_gap_is_told() {
        let mut flow = Flow::new(Kind::Shell);
        flow.attach(None).expect("attached");
        flow.output(&bytes(0, 100)).expect("fits");
        flow.take(1000).expect("output");
        flow.ack(100).expect("sent");
        flow.detach();
        let mut end = 100;
        for _ in 0..40 {
            flow.output(&bytes(end, 64 << 10)).expect("granted at once");
            end += 64 << 10;
            assert_eq!(flow.grant(), Some(end));
        }
        let begin = flow.attach(Some(100)).expect("attached");
        assert_eq!(
            (begin.output, begin.lost_from),
            (end - OUTPUT_WINDOW, Some(100))
        );
        assert_eq!(
            flow.take(5).expect("output"),
            (begin.output, bytes(begin.output, 5))
        );
        assert!(flow.attach(Some(end + 1)).is_err());
    }

    #[test]
    fn a_tunnel_without_a_client_waits_and_loses_nothing() {
        let window = Kind::SshTunnel.output_window();
        let mut flow = Flow::new(Kind::SshTunnel);
        flow.attach(None).expect("attached");
        flow.output(&bytes(0, window)).expect("one window");
        flow.take(1000).expect("output");
        flow.ack(1000).expect("sent");
        flow.detach();
        assert_eq!(flow.grant(), None, "nothing is granted for nobody");
        assert!(flow.output(&bytes(window, 1001)).is_err());
        assert_eq!((flow.ring.start(), flow.carried()), (0, (0, window)));
    }

    #[test]
    fn input_that_is_sent_again_is_not_executed_again() {
        let mut flow = Flow::new(Kind::Shell);
        assert_eq!(flow.input(0, b"rm a\n").expect("new"), b"rm a\n");
        assert_eq!(flow.input(0, b"rm a\n").expect("known"), b"");
        assert_eq!(flow.input(3, b"a\nrm b\n").expect("half known"), b"rm b\n");
        assert!(flow.input(11, b"x").is_err(), "byte 10 is missing");
        assert_eq!(flow.attach(None).expect("attached").input, 10);
    }

    #[test]
    fn input_beyond_the_window_is_refused() {
        let mut flow = Flow::new(Kind::Shell);
        let window = vec![0; INPUT_WINDOW as usize];
        flow.input(0, &window).expect("one window");
        assert!(flow.input(INPUT_WINDOW, b"x").is_err());
        flow.input_acked(1).expect("was sent");
        flow.input(INPUT_WINDOW, b"x").expect("one byte more");
        assert!(flow.input_acked(INPUT_WINDOW + 2).is_err());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Output(u64),
        Deliver(usize),
        Ack(u8),
        Cut,
        Attach,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (1..48_000_u64).prop_map(Step::Output),
            4 => (1..48_000_usize).prop_map(Step::Deliver),
            3 => any::<u8>().prop_map(Step::Ack),
            1 => Just(Step::Cut),
            2 => Just(Step::Attach),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        /// Whatever happens in whatever order: a client sees every byte in order except in gaps it is reported about, and
        /// the host never needs more than its window.
        #[test]
        fn nothing_is_lost_silently(steps in steps()) {
            let mut flow = Flow::new(Kind::Shell);
            let (mut produced, mut received, mut reported) = (0, 0, 0);
            let mut attached = false;
            for step in steps {
                match step {
                    Step::Output(length) => {
                        // a host sends only what it may
                        let length = length.min(reported + OUTPUT_WINDOW - produced);
                        flow.output(&bytes(produced, length)).expect("within the window");
                        produced += length;
                    }
                    Step::Deliver(most) => while let Some((offset, data)) = flow.take(most) {
                        prop_assert_eq!(offset, received);
                        prop_assert_eq!(&data, &bytes(offset, data.len() as u64));
                        received += data.len() as u64;
                        if most % 2 == 0 { break; }
                    },
                    Step::Ack(percent) => flow.ack(received * u64::from(percent) / 255).expect("was received"),
                    Step::Cut => { flow.detach(); attached = false; }
                    Step::Attach => {
                        let begin = flow.attach(Some(received)).expect("within the output");
                        prop_assert_eq!(begin.lost_from, (begin.output != received).then_some(received));
                        received = begin.output;
                        attached = true;
                    }
                }
                if let Some(granted) = flow.grant() {
                    prop_assert!(granted >= reported && granted <= produced);
                    reported = granted;
                }
                prop_assert!(flow.backlog() <= RING);
            }
            // it moves as long as the client does
            if attached {
                flow.ack(received).expect("was received");
                while let Some((offset, data)) = flow.take(usize::MAX) {
                    prop_assert_eq!(offset, received);
                    received += data.len() as u64;
                    flow.ack(received).expect("was received");
                }
                prop_assert_eq!(received, produced);
                if let Some(granted) = flow.grant() { reported = granted; }
                prop_assert!(reported + OUTPUT_WINDOW > produced, "the host may go on");
            }
        }
    }
}
