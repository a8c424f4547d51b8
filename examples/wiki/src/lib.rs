//! How does a wiki look whose only store is Carillon?
//!
//! Pages, links, categories and recent changes are keys of an ordered keyspace. A page's revisions
//! are the versions that the store keeps anyway: there is no table of them.
//!
//! ```text
//!   page:Carillon                  {"revision":7,"text":"…","author":"ann","comment":"…"}
//!   link:Bell␀Carillon             Carillon links to Bell
//!   category:Instruments␀Carillon  Carillon is in that category
//!   recent:00001795712437800:Carillon   changed then; goes after thirty days
//! ```
//!
//! Saving a page is one transaction: it compares the revision that was edited, puts the page, and
//! changes its links and categories. So links are never wrong, and of two who edit the same
//! revision one is told so, with both texts.
//!
//! | file | what |
//! |---|---|
//! | [`pages`] | reads and writes: start here |
//! | [`markup`] | what a page's text means: links, categories, HTML |
//! | [`export`] | reads MediaWiki's XML exports |
//! | [`web`], `form`, `html` | requests and pages |
//! | [`live`] | recent changes as they happen |
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | a page's text | [`pages::TEXT_BYTES_MAX`] | refused |
//! | links and categories of a page | [`markup::LINKS_MAX`] | the rest is not indexed |
//! | items of a list | [`pages::LIST_MAX`] | not shown |
//! | viewers of recent changes | [`live::VIEWERS_MAX`] | 503 |
//!
//! Caveat: the store keeps old versions as long as its keyspace says, and as far as a tenth of its
//! memory reaches. A wiki that must keep all revisions for ever needs more memory, or a copy.

pub mod export;
mod form;
mod html;
pub mod live;
pub mod markup;
pub mod pages;
pub mod web;
