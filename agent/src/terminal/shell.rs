//! A running shell or tunnel, wherever it is: bytes out, bytes in, a size, an end.
use bytes::Bytes;
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// Most bytes of one piece of output.
pub const CHUNK: usize = 32 << 10;

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub cols: u16,
    pub rows: u16,
}

impl Size {
    /// Checks a size.
    ///
    /// # Errors
    /// Naming the field.
    pub fn parse(size: &pb::TerminalSize) -> Result<Self, Error> {
        if !(1..=1000).contains(&size.cols) || !(1..=500).contains(&size.rows) {
            return Err(Error::invalid(
                "size",
                "must be 1 to 1000 columns and 1 to 500 rows",
            ));
        }
        Ok(Self {
            cols: size.cols as u16,
            rows: size.rows as u16,
        })
    }
}

/// A message of a shell.
#[derive(Debug, PartialEq, Eq)]
pub enum ShellMessage {
    /// Output, at most [`CHUNK`] bytes.
    Output(Bytes),
    /// It ended; nothing follows.
    Exit(Option<u32>),
}

/// A shell. Dropping it ends it.
pub struct Shell {
    /// Its messages. A reader that stops applies backpressure.
    pub messages: mpsc::Receiver<ShellMessage>,
    /// Input. One piece is queued; the next one waits to be sent.
    pub input: mpsc::Sender<Bytes>,
    /// Bytes of input that the shell has consumed.
    pub taken: watch::Receiver<u64>,
    /// Its size; only the last of several changes reaches it.
    pub size: watch::Sender<Size>,
    task: AbortHandle,
}

/// The other end of a [`Shell`].
pub struct Ends {
    pub messages: mpsc::Sender<ShellMessage>,
    pub input: mpsc::Receiver<Bytes>,
    pub taken: watch::Sender<u64>,
    pub size: watch::Receiver<Size>,
}

impl Shell {
    /// A shell that `run` moves.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(
        size: Size,
        run: impl FnOnce(Ends) -> F,
    ) -> Self {
        let (sender, messages) = mpsc::channel(1);
        let (input, input_out) = mpsc::channel(1);
        let (taken_in, taken) = watch::channel(0);
        let (size, size_out) = watch::channel(size);
        let ends = Ends {
            messages: sender,
            input: input_out,
            taken: taken_in,
            size: size_out,
        };
        let task = tokio::spawn(run(ends)).abort_handle();
        Self {
            messages,
            input,
            taken,
            size,
            task,
        }
    }

    /// Its task.
    #[cfg(test)]
    pub fn task_for_test(&self) -> AbortHandle {
        self.task.clone()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.task.abort();
    }
}
