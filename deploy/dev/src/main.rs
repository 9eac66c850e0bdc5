//! The command behind `make up`, `make down` and `make status`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gpuaas_dev::error::chain;
use gpuaas_dev::ports::{Instance, Service};
use gpuaas_dev::seed::{self, FirstSlice, Tokens};
use gpuaas_dev::stack::{Options, Stack, status_table};

/// Runs the whole system on this machine, below one folder.
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Starts what does not run as wanted, seeds what is missing, and launches a first slice.
    Up {
        #[command(flatten)]
        which: Which,
        /// Lab hosts. Those that are there stay.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(gpuaas_dev::lab::HOSTS)))]
        hosts: u16,
        /// Launch no first slice.
        #[arg(long)]
        no_slice: bool,
        /// Approve no slot of the lab host: leave that to an operator.
        #[arg(long, requires = "no_slice")]
        no_approval: bool,
    },
    /// Ends everything that was started. The data stays, unless --purge is given.
    Down {
        #[command(flatten)]
        which: Which,
        /// Also remove the stack's data.
        #[arg(long)]
        purge: bool,
        /// Also end what tests of this checkout started and left running.
        #[arg(long)]
        tests: bool,
    },
    /// Shows the parts, their processes, addresses, memory and health.
    Status {
        #[command(flatten)]
        which: Which,
    },
    /// Adds a guest image to the running stack: builds it when its script is new, pushes and registers it.
    Image {
        #[command(flatten)]
        which: Which,
        /// Which image.
        image: ExtraImage,
    },
}

/// Guest images that are no part of a first start.
#[derive(Clone, Copy, ValueEnum)]
enum ExtraImage {
    /// Debian 12 with systemd, OpenSSH and cloud-init, as lab-debian.
    Debian,
}

/// Which stack.
#[derive(Args)]
struct Which {
    /// Folder of the stack; `.run` of the checkout when absent.
    #[arg(long)]
    root: Option<PathBuf>,
    /// Number of the stack; decides ports and addresses.
    #[arg(long, default_value_t = 0)]
    instance: u16,
    /// Collector of traces (OTLP over gRPC).
    #[arg(long, default_value = "", env = "GPUAAS_OTLP_ENDPOINT")]
    otlp_endpoint: String,
}

impl Which {
    fn stack(self) -> gpuaas_dev::Result<Stack> {
        Stack::new(self.options()?)
    }

    fn options(self) -> gpuaas_dev::Result<Options> {
        let instance = Instance::new(self.instance)?;
        let mut options = match self.root {
            Some(root) => {
                // loop devices name their files by absolute paths, and are found by them
                let absolute = std::path::absolute(&root);
                let absolute = absolute.map_err(gpuaas_dev::Error::file("resolve", &root))?;
                Options::beside(absolute, instance)
            }
            None => Options {
                instance,
                ..Options::main()
            },
        };
        options.otlp_endpoint = self.otlp_endpoint;
        Ok(options)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Command::parse().action).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(action: Action) -> gpuaas_dev::Result<()> {
    match action {
        Action::Up {
            which,
            hosts,
            no_slice,
            no_approval,
        } => {
            let mut options = which.options()?;
            options.approve = !no_approval;
            options.hosts = hosts;
            // those of an earlier start stay
            options.hosts = Stack::new(options.clone())?.lab_hosts();
            up(&Stack::new(options)?, !no_slice).await
        }
        Action::Down {
            which,
            purge,
            tests,
        } => {
            let stack = which.stack()?;
            let _alone = stack.lock()?;
            stack.down()?;
            if purge {
                stack.purge()?;
            }
            if tests {
                gpuaas_dev::postgres::stop_test_server()?;
                gpuaas_dev::sweep::sweep(&gpuaas_dev::paths::run_dir().join("test"));
            }
            println!("everything has ended");
            Ok(())
        }
        Action::Status { which } => {
            let stack = which.stack()?;
            print!("{}", status_table(&stack.status().await?));
            if let Some(link) = stack.sign_in_link() {
                println!("\nConsole, signed in by this link alone: {link}");
            }
            Ok(())
        }
        Action::Image {
            which,
            image: ExtraImage::Debian,
        } => {
            let stack = which.stack()?;
            let _alone = stack.lock()?;
            seed::add_debian(&stack, &|line: &str| println!("{line}")).await?;
            println!("{} can be launched", seed::DEBIAN_IMAGE);
            Ok(())
        }
    }
}

async fn up(stack: &Stack, launch: bool) -> gpuaas_dev::Result<()> {
    if stack.options().lab && !nix::unistd::Uid::effective().is_root() {
        return Err(gpuaas_dev::Error::other(
            "the lab host needs namespaces and loop devices; run this as root",
        ));
    }
    let _alone = stack.lock()?;
    let begun = Instant::now();
    let changes = AtomicUsize::new(0);
    let progress = |line: &str| {
        changes.fetch_add(1, Ordering::Relaxed);
        println!("{:6.1} s  {line}", begun.elapsed().as_secs_f64());
    };
    stack.up(&progress).await?;
    seed::all(stack, &progress).await?;
    let slice = match launch {
        true => Some(seed::first_slice(stack, &progress).await?),
        false => None,
    };
    let seconds = begun.elapsed().as_secs_f64();
    match changes.into_inner() {
        0 => println!("Everything runs already; nothing was changed ({seconds:.1} s)."),
        _ => println!("Up in {seconds:.1} s."),
    }
    print!("{}", summary(stack, slice.as_ref()));
    Ok(())
}

/// What a stranger needs next.
fn summary(stack: &Stack, slice: Option<&FirstSlice>) -> String {
    let tokens = Tokens::of(&stack.options().root);
    let cli = stack.program("gpuaas");
    let mut text = format!(
        "\nconsole        {}\nAPI            {}  (OpenAPI at /api/openapi.json)\nuser token     {}\nadmin token    {}\nserial logs    ssh -p {} ALLOCATION-ID@127.0.0.1\nlogs           {}\n",
        stack.sign_in_link().unwrap_or_default(),
        stack.api_url(),
        tokens.user.display(),
        tokens.admin.display(),
        stack.options().instance.port(Service::GatewaySsh),
        stack.options().root.join("logs").display(),
    );
    if let Some(slice) = slice {
        text.push_str(&format!("first slice    {} is {}", slice.id, slice.state));
        if let Some(took) = slice.took {
            text.push_str(&format!(
                ", {:.1} s from request to login",
                took.as_secs_f64()
            ));
        }
        text.push('\n');
        if let Some(ssh) = &slice.ssh {
            text.push_str(&format!("\nLog in:\n  {ssh}\n"));
        }
    }
    text.push_str(&format!(
        "\nNext:\n  export GPUAAS_PROFILE_FILE={}\n  {} list\n",
        seed::profile_file(&stack.options().root).display(),
        cli.display(),
    ));
    if let Some(slice) = slice.filter(|slice| slice.state == "active") {
        text.push_str(&format!(
            "  {} release {} --wait\n",
            cli.display(),
            slice.id
        ));
    }
    text.push_str("  make status; make down\n");
    text
}
