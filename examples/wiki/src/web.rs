//! Requests: paths, forms, headers.
//!
//! Pages may load nothing but the wiki's own style and script, and post to nobody else
//! (`Content-Security-Policy`). A form that a page of another site sends is refused.

use std::convert::Infallible;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, LOCATION, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use crate::live::{Live, Viewer};
use crate::markup::{encode, title};
use crate::pages::{Edit, Page, Saved, TEXT_BYTES_MAX, Wiki, WikiError};
use crate::{form, html};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";
/// A form with the longest text, each byte encoded.
const FORM_BYTES_MAX: usize = 3 * TEXT_BYTES_MAX + (64 << 10);

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

#[derive(Clone)]
struct App {
    wiki: Wiki,
    live: Live,
}

/// An answer that is no page.
enum Refused {
    Bad(&'static str),
    NotFound,
    Foreign,
    TooMany,
    Failed(WikiError),
}

impl From<WikiError> for Refused {
    fn from(error: WikiError) -> Self {
        Self::Failed(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, why) = match self {
            Refused::Bad(why) => (StatusCode::BAD_REQUEST, why.to_owned()),
            Refused::NotFound => (StatusCode::NOT_FOUND, "There is nothing here.".to_owned()),
            Refused::Foreign => {
                (StatusCode::FORBIDDEN, "A page of another site has sent this form.".to_owned())
            }
            Refused::TooMany => {
                (StatusCode::SERVICE_UNAVAILABLE, "Too many watch already.".to_owned())
            }
            Refused::Failed(error @ WikiError::TooLong(_)) => {
                (StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
            }
            Refused::Failed(WikiError::Store(error @ client::Error::BadRequest { .. })) => {
                (StatusCode::BAD_REQUEST, error.to_string())
            }
            Refused::Failed(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        };
        page(status, html::error("This did not work", &why))
    }
}

type Answer = Result<Response, Refused>;

fn page(status: StatusCode, html: String) -> Response {
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

/// The title that a path names.
fn titled(uri: &Uri, prefix: &str) -> Result<String, Refused> {
    let tail = uri.path().strip_prefix(prefix).unwrap_or_default();
    let text = form::path(tail).ok_or(Refused::Bad("The path is not encoded as it should be."))?;
    title(&text).ok_or(Refused::Bad("No page can have this title."))
}

fn query(uri: &Uri, name: &str) -> Result<String, Refused> {
    let found = form::value(uri.query().unwrap_or_default(), name);
    found.ok_or(Refused::Bad("The query is not encoded as it should be."))
}

async fn view(State(app): State<App>, uri: Uri) -> Answer {
    let (title, at) = (titled(&uri, "/wiki/")?, query(&uri, "at")?);
    let at = Some(at.as_str()).filter(|at| !at.is_empty());
    let found = match at {
        Some(at) => app.wiki.page_at(&title, at).await?,
        None => app.wiki.page(&title).await?,
    };
    let status = if found.text.is_empty() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    Ok(page(status, html::page(&title, &found, at)))
}

async fn edit(State(app): State<App>, uri: Uri) -> Answer {
    let title = titled(&uri, "/edit/")?;
    let Page { text, revision, .. } = app.wiki.page(&title).await?;
    let filled = Page { text, revision, ..Page::default() };
    Ok(page(StatusCode::OK, html::edit(&title, &filled, None)))
}

/// Whether a form comes from a page of the wiki itself.
fn is_own(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN).map(HeaderValue::as_bytes) else {
        // No browser of these days; `Sec-Fetch-Site` is younger than `Origin`.
        return true;
    };
    let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let tail = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(host))
}

async fn save(State(app): State<App>, uri: Uri, headers: HeaderMap, body: Body) -> Answer {
    if !is_own(&headers) {
        return Err(Refused::Foreign);
    }
    let title = titled(&uri, "/edit/")?;
    let body = axum::body::to_bytes(body, FORM_BYTES_MAX).await;
    let body = body.map_err(|_| Refused::Failed(WikiError::TooLong("the form is too long")))?;
    let body = String::from_utf8(body.to_vec());
    let body = body.map_err(|_| Refused::Bad("The form is no text."))?;
    let field = |name| {
        form::value(&body, name).ok_or(Refused::Bad("The form is not encoded as it should be."))
    };
    let text = field("text")?.replace("\r\n", "\n");
    let (author, comment) = (field("author")?, field("comment")?);
    let base = field("base")?.parse().map_err(|_| Refused::Bad("base is no revision."))?;
    if author.trim().is_empty() {
        return Err(Refused::Bad("Say who you are: any name will do."));
    }
    let edit = Edit { title: &title, base, text: &text, author: author.trim(), comment: &comment };
    match app.wiki.save(&edit, now_ms()).await? {
        Saved::Done(_) => {
            let place = format!("/wiki/{}", encode(&title));
            Ok((StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response())
        }
        Saved::Conflict(theirs) => {
            let filled = Page { revision: theirs.revision, text, author, comment };
            let html = html::edit(&title, &filled, Some(&theirs));
            Ok(page(StatusCode::CONFLICT, html))
        }
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

async fn history(State(app): State<App>, uri: Uri) -> Answer {
    let title = titled(&uri, "/history/")?;
    let versions = app.wiki.history(&title).await?;
    Ok(page(StatusCode::OK, html::history(&title, &versions)))
}

async fn links(State(app): State<App>, uri: Uri) -> Answer {
    let title = titled(&uri, "/links/")?;
    let list = html::list(&app.wiki.backlinks(&title).await?, "No page links here.");
    Ok(page(StatusCode::OK, html::frame(&format!("What links to {title}"), &list)))
}

async fn category(State(app): State<App>, uri: Uri) -> Answer {
    let name = titled(&uri, "/category/")?;
    let list = html::list(&app.wiki.category(&name).await?, "No page is in this category.");
    Ok(page(StatusCode::OK, html::frame(&format!("Category {name}"), &list)))
}

async fn search(State(app): State<App>, uri: Uri) -> Answer {
    let prefix = query(&uri, "prefix")?;
    // All titles, if none is named.
    let prefix = if prefix.is_empty() { prefix } else { title(&prefix).unwrap_or(prefix) };
    let list = html::list(&app.wiki.search(&prefix).await?, "No title begins so.");
    Ok(page(StatusCode::OK, html::frame(&format!("Titles that begin with “{prefix}”"), &list)))
}

async fn recent(State(app): State<App>) -> Answer {
    Ok(page(StatusCode::OK, html::recent(&app.wiki.recent().await?)))
}

async fn stream(State(app): State<App>) -> Answer {
    let viewer = app.live.viewer().ok_or(Refused::TooMany)?;
    let mut response = Response::new(Body::new(stream::Pieces::of(viewer)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// The body of a stream.
mod stream {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::HttpBody;
    use hyper::body::Frame;
    use tokio::sync::mpsc;

    use super::{Bytes, Infallible, Viewer};

    pub(super) struct Pieces(mpsc::Receiver<Bytes>);

    impl Pieces {
        pub(super) fn of(mut viewer: Viewer) -> Self {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(async move {
                while let Some(piece) = viewer.next().await {
                    if sender.send(Bytes::from(piece)).await.is_err() {
                        return;
                    }
                }
            });
            Self(receiver)
        }
    }

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }
    }
}

async fn style() -> Response {
    let kind = [(CONTENT_TYPE, "text/css; charset=utf-8")];
    (kind, include_str!("../assets/wiki.css")).into_response()
}

async fn script() -> Response {
    let kind = [(CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (kind, include_str!("../assets/wiki.js")).into_response()
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn router(app: App) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::to("/wiki/Main_Page") }))
        .route("/wiki/{*title}", get(view))
        .route("/edit/{*title}", get(edit).post(save))
        .route("/history/{*title}", get(history))
        .route("/links/{*title}", get(links))
        .route("/category/{*name}", get(category))
        .route("/search", get(search))
        .route("/recent", get(recent))
        .route("/recent/stream", get(stream))
        .route("/wiki.css", get(style))
        .route("/wiki.js", get(script))
        .fallback(|| async { Refused::NotFound })
        .layer(from_fn(with_headers))
        .with_state(app)
}

/// Serves a wiki on a listener, until the future is dropped. To be called within a Tokio runtime.
pub async fn serve(listener: TcpListener, wiki: Wiki) {
    let live = Live::watch(wiki.clone());
    let router = router(App { wiki, live });
    loop {
        // A failed accept means that there are no file descriptors left, mostly: others end.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new());
            // Who breaks the connection off hears nothing more.
            let _broken = server.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
