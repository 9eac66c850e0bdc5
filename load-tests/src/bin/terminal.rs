//! What a terminal costs next to plain `ssh`: throughput of output and echo of single keystrokes, through browser
//! protocol, gateway, terminal gateway, agent and guest, and by `ssh -tt` to the same guest, in turn, in one run.
//! Prints Markdown.
//!
//! usage: make bench-terminal
//!        terminal [MIB] [ROUNDS]
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use gpuaas_load_tests::measure::{circumstances, median, percentile, threads_ms};
use gpuaas_load_tests::slice::{self, Slice};
use gpuaas_load_tests::socket::Terminal;
use gpuaas_load_tests::system::{self, Hosts, System};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Keystrokes of a round whose echo is timed.
const KEYS: usize = 200;
/// Keystrokes before them.
const WARM_UP: usize = 20;
/// The processes between a browser and the guest's own login.
const ON_THE_WAY: [&str; 3] = ["gateway", "terminal-gateway", "agent"];
/// Longest silence of a shell.
const TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let (mebibytes, rounds): (usize, usize) = (number(20)?, number(3)?);
    ensure!(
        mebibytes > 0 && rounds > 0,
        "there must be output and rounds"
    );
    system::with(Hosts::Lab, &[], async |system| {
        slice::release_all(&system.user).await?;
        let slice = Slice::launch(system).await?;
        measure(system, &slice, mebibytes, rounds).await?;
        slice.release().await
    })
    .await
}

async fn measure(
    system: &System<'_>,
    slice: &Slice<'_>,
    mebibytes: usize,
    rounds: usize,
) -> anyhow::Result<()> {
    let circumstances = circumstances();
    let (mut plain, mut product) = (Outcome::default(), Outcome::default());
    let mut on_the_way = Vec::with_capacity(ON_THE_WAY.len());
    for part in ON_THE_WAY {
        on_the_way.push((part, system.process(part).await?));
    }
    let mut used = vec![0.0; on_the_way.len()];
    for round in 1..=rounds {
        plain.round(Shell::ssh(slice)?, mebibytes).await?;
        let terminal = Terminal::open(&system.user, &system.stack.api_url(), &slice.id).await?;
        let mut shell = Shell::Terminal(Box::new(terminal));
        product.rates.push(shell.throughput(mebibytes).await?);
        let times = || on_the_way.iter().map(|(_, process)| threads_ms(process));
        let before: Vec<f64> = times().collect();
        product.echoes.extend(shell.echoes().await?);
        for ((used, before), now) in used.iter_mut().zip(before).zip(times()) {
            *used += now - before;
        }
        shell.close().await?;
        eprintln!(
            "round {round}: ssh {:.1} MiB/s, terminal {:.1} MiB/s",
            plain.rates[round - 1],
            product.rates[round - 1]
        );
    }
    println!("{circumstances}; {rounds} rounds of {mebibytes} MiB and {KEYS} keystrokes\n");
    println!(
        "| way into the guest | output, MiB/s | ratio | echo p50, ms | ratio | echo p99, ms | ratio |"
    );
    println!("|---|---|---|---|---|---|---|");
    let [base, found] = [plain.row(), product.row()];
    for (name, row) in [("`ssh -tt`", base), ("terminal", found)] {
        println!(
            "| {name} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            row[0],
            row[0] / base[0],
            row[1],
            row[1] / base[1],
            row[2],
            row[2] / base[2]
        );
    }
    println!("\n| on the way of a keystroke and its echo | processor time, ms |\n|---|---|");
    let keys = (rounds * (WARM_UP + KEYS)) as f64;
    for ((part, _), used) in on_the_way.iter().zip(used) {
        println!("| {part} | {:.3} |", used / keys);
    }
    Ok(())
}

/// What all rounds of one way gave.
#[derive(Default)]
struct Outcome {
    /// Output of each round, MiB/s.
    rates: Vec<f64>,
    /// Of every keystroke.
    echoes: Vec<Duration>,
}

impl Outcome {
    async fn round(&mut self, mut shell: Shell, mebibytes: usize) -> anyhow::Result<()> {
        self.rates.push(shell.throughput(mebibytes).await?);
        self.echoes.extend(shell.echoes().await?);
        shell.close().await
    }

    /// Median of the throughput, then p50 and p99 of the echo.
    fn row(&mut self) -> [f64; 3] {
        self.echoes.sort();
        [
            median(self.rates.clone()),
            percentile(&self.echoes, 50),
            percentile(&self.echoes, 99),
        ]
    }
}

/// A shell in the guest with a terminal of its own.
enum Shell {
    Terminal(Box<Terminal>),
    Ssh(Box<Ssh>),
}

struct Ssh {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Shell {
    fn ssh(slice: &Slice<'_>) -> anyhow::Result<Self> {
        let mut child = Command::from(slice.ssh(&["-tt"]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self::Ssh(Box::new(Ssh {
            input: child.stdin.take().context("a pipe")?,
            output: child.stdout.take().context("a pipe")?,
            child,
        })))
    }

    async fn type_in(&mut self, typed: &str) -> anyhow::Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.type_in(typed.as_bytes()).await,
            Self::Ssh(ssh) => Ok(ssh.input.write_all(typed.as_bytes()).await?),
        }
    }

    async fn output(&mut self) -> anyhow::Result<Vec<u8>> {
        let next = async {
            match self {
                Self::Terminal(terminal) => terminal.output().await,
                Self::Ssh(ssh) => {
                    let mut data = vec![0; 32 << 10];
                    let length = ssh.output.read(&mut data).await?;
                    ensure!(length > 0, "ssh has ended");
                    data.truncate(length);
                    Ok(data)
                }
            }
        };
        tokio::time::timeout(TIMEOUT, next)
            .await
            .context("the shell is silent")?
    }

    /// Reads up to and with a text; answers with what came after it.
    async fn until(&mut self, text: &str) -> anyhow::Result<Vec<u8>> {
        let mut seen = Vec::new();
        loop {
            if let Some(place) = find(&seen, text) {
                return Ok(seen.split_off(place + text.len()));
            }
            seen.extend(self.output().await?);
        }
    }

    /// Output of a command that does nothing else, in MiB/s, counted to the byte.
    async fn throughput(&mut self, mebibytes: usize) -> anyhow::Result<f64> {
        // the quotes keep the marks out of the echo of the command itself
        self.type_in(&format!(
            "echo be''gin; dd if=/dev/zero bs=65536 count={} 2>/dev/null | tr '\\0' x; echo e''nd\n",
            mebibytes * 16
        ))
        .await?;
        let rest = self.until("begin\r\n").await?;
        let begun = Instant::now();
        let expected = mebibytes << 20;
        let mut last = rest;
        let mut bulk = count(&last);
        while find(&last, "end\r\n").is_none() {
            let data = self.output().await?;
            bulk += count(&data);
            // the mark may come in two pieces
            let kept = last.len().saturating_sub(8);
            last.drain(..kept);
            last.extend(data);
        }
        let took = begun.elapsed();
        ensure!(bulk == expected, "{bulk} bytes of {expected} came");
        Ok(mebibytes as f64 / took.as_secs_f64())
    }

    /// Times from a keystroke to its echo by the guest's terminal.
    async fn echoes(&mut self) -> anyhow::Result<Vec<Duration>> {
        self.type_in("echo rea''dy; cat > /dev/null\n").await?;
        self.until("ready\r\n").await?;
        let mut times = Vec::with_capacity(KEYS);
        // another letter than the one before, so that no late echo is taken for the next
        for (number, key) in ('a'..='z').cycle().take(WARM_UP + KEYS).enumerate() {
            let begun = Instant::now();
            self.type_in(&key.to_string()).await?;
            self.until(&key.to_string()).await?;
            if number >= WARM_UP {
                times.push(begun.elapsed());
            }
        }
        Ok(times)
    }

    async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.close().await,
            Self::Ssh(mut ssh) => Ok(ssh.child.kill().await?),
        }
    }
}

fn find(text: &[u8], wanted: &str) -> Option<usize> {
    text.windows(wanted.len())
        .position(|window| window == wanted.as_bytes())
}

fn count(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'x').count()
}
