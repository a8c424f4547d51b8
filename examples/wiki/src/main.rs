//! The wiki as a program: `wiki serve` and `wiki import`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tokio::net::TcpListener;
use wiki::export;
use wiki::markup::title;
use wiki::pages::{Edit, Page, Saved, Wiki, WikiError};
use wiki::web::{now_ms, serve};

/// The longest export that is read.
const EXPORT_BYTES_MAX: u64 = 1 << 30;

/// A small wiki on Carillon.
#[derive(Debug, Parser)]
#[command(name = "wiki", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Where the store is.
#[derive(Debug, Args)]
struct StoreArgs {
    /// Redis listeners of nodes.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', default_value = "127.0.0.1:6379")]
    resp: Vec<String>,
    /// HTTP listeners of nodes.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',',
        default_value = client::http::DEFAULT_ADDRESS)]
    http: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the wiki.
    Serve {
        /// Where browsers find it.
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8090")]
        listen: SocketAddr,
        /// First import this export, if the wiki has no main page.
        #[arg(long, value_name = "FILE")]
        import: Option<PathBuf>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Import an export of MediaWiki: each of its revisions becomes one here.
    Import {
        /// The XML file.
        file: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Wiki(#[from] WikiError),
    #[error("{}: {why}", file.display())]
    File { file: PathBuf, why: String },
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(run(cli)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("wiki: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Import { file, store } => {
            let wiki = Wiki::open(&store.resp, &store.http).await?;
            import(&wiki, &file).await
        }
        Command::Serve { listen, import: file, store } => {
            let wiki = Wiki::open(&store.resp, &store.http).await?;
            if let Some(file) = file
                && wiki.page("Main Page").await? == Page::default()
            {
                import(&wiki, &file).await?;
            }
            let listener = TcpListener::bind(listen).await?;
            println!("wiki on http://{}/", listener.local_addr()?);
            serve(listener, wiki).await;
            Ok(())
        }
    }
}

async fn import(wiki: &Wiki, file: &Path) -> Result<(), Failure> {
    let failed = |why: String| Failure::File { file: file.to_owned(), why };
    let bytes = std::fs::metadata(file).map_err(|why| failed(why.to_string()))?.len();
    if bytes > EXPORT_BYTES_MAX {
        return Err(failed(format!("it has {bytes} bytes, and may have {EXPORT_BYTES_MAX}")));
    }
    let xml = std::fs::read_to_string(file).map_err(|why| failed(why.to_string()))?;
    let pages = export::pages(&xml).map_err(|why| failed(why.to_string()))?;
    let (mut revisions, mut skipped) = (0, 0);
    for page in &pages {
        let Some(title) = title(&page.title) else {
            skipped += 1;
            continue;
        };
        let mut base = wiki.page(&title).await?.revision;
        for revision in &page.revisions {
            let comment = format!("{} ({})", revision.comment, revision.timestamp);
            let (text, author) = (revision.text.as_str(), revision.author.as_str());
            let edit = Edit { title: &title, base, text, author, comment: &comment };
            match wiki.save(&edit, now_ms()).await? {
                Saved::Done(revision) => base = revision,
                Saved::Conflict(theirs) => {
                    return Err(failed(format!("{:?} changes {title:?} now", theirs.author)));
                }
            }
            revisions += 1;
        }
    }
    println!("imported {} pages, {revisions} revisions", pages.len() - skipped);
    if skipped > 0 {
        println!("{skipped} pages have titles that this wiki does not know");
    }
    Ok(())
}
