//! The pages of the wiki, as HTML. What comes from people goes through [`escape`].

use crate::markup::{self, encode, escape};
use crate::pages::{Change, Page, Version};

/// A time as people read it, in UTC.
pub fn utc(at_ms: u64) -> String {
    let (days, seconds) = (at_ms / 86_400_000, at_ms / 1000 % 86_400);
    // Days since 1970-01-01 as a date, after Howard Hinnant: years begin in March.
    let from_march = days + 719_468;
    let (era, day) = (from_march / 146_097, from_march % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + later;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02}")
}

/// A whole page.
pub fn frame(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"/wiki.css\">\
         <script src=\"/wiki.js\" defer></script></head><body>\
         <header><a href=\"/wiki/Main_Page\">Main page</a> <a href=\"/recent\">Recent changes</a>\
         <form action=\"/search\" role=\"search\"><label>Titles that begin with \
         <input name=\"prefix\" type=\"search\" maxlength=\"200\"></label>\
         <button>Search</button></form></header>\
         <main><h1>{title}</h1>\n{body}</main></body></html>\n"
    )
}

fn link(title: &str) -> String {
    format!("<a href=\"/wiki/{}\">{}</a>", encode(title), escape(title))
}

/// A list of pages.
pub fn list(titles: &[String], none: &str) -> String {
    if titles.is_empty() {
        return format!("<p>{none}</p>\n");
    }
    let items: String = titles.iter().map(|title| format!("<li>{}</li>\n", link(title))).collect();
    format!("<ul>{items}</ul>\n")
}

/// A page, as it is or was.
pub fn page(title: &str, page: &Page, at: Option<&str>) -> String {
    let name = encode(title);
    let mut body = String::new();
    if let Some(at) = at {
        body += &format!(
            "<p class=\"note\">As it was at {}. <a href=\"/wiki/{name}\">As it is now</a></p>\n",
            escape(at)
        );
    }
    body += &match page.text.is_empty() {
        true => "<p class=\"note\">There is no such page.</p>\n".to_owned(),
        false => markup::html(&page.text),
    };
    let categories = markup::references(&page.text).categories;
    if !categories.is_empty() {
        let links = categories
            .iter()
            .map(|one| format!("<a href=\"/category/{}\">{}</a>", encode(one), escape(one)));
        body += &format!("<p>Categories: {}</p>\n", links.collect::<Vec<_>>().join(", "));
    }
    body += &format!(
        "<nav><a href=\"/edit/{name}\">Edit</a> <a href=\"/history/{name}\">History</a> \
         <a href=\"/links/{name}\">What links here</a></nav>\n"
    );
    if page.revision > 0 {
        let (revision, author) = (page.revision, escape(&page.author));
        body += &format!("<p class=\"note\">Revision {revision}, by {author}</p>\n");
    }
    frame(title, &body)
}

/// A form to edit a page, with what is filled in; if another was faster, with what that one has
/// written. `filled.revision` is the revision that the edit is of.
pub fn edit(title: &str, filled: &Page, theirs: Option<&Page>) -> String {
    let mut body = String::new();
    if let Some(theirs) = theirs {
        body += &format!(
            "<p class=\"conflict\">{} has changed the page meanwhile: nothing of yours is saved. \
             Your text is below. Save it again to put it in place of this:</p>\n\
             <pre>{}</pre>\n",
            escape(&theirs.author),
            escape(&theirs.text)
        );
    }
    body += &format!(
        "<form method=\"post\" action=\"/edit/{}\">\
         <input type=\"hidden\" name=\"base\" value=\"{}\">\
         <label>Text<textarea name=\"text\" rows=\"24\">\n{}</textarea></label>\
         <label>What you have changed<input name=\"comment\" maxlength=\"200\" value=\"{}\"></label>\
         <label>Your name<input name=\"author\" maxlength=\"100\" required value=\"{}\"></label>\
         <button>Save</button></form>\n",
        encode(title),
        filled.revision,
        escape(&filled.text),
        escape(&filled.comment),
        escape(&filled.author)
    );
    frame(&format!("Edit {title}"), &body)
}

/// The revisions of a page.
pub fn history(title: &str, versions: &[Version]) -> String {
    let row = |version: &Version| {
        format!(
            "<tr><td><a href=\"/wiki/{}?at={}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>\n",
            encode(title),
            encode(&version.at),
            utc(version.at_ms),
            version.page.revision,
            escape(&version.page.author),
            version.bytes,
            escape(&version.page.comment)
        )
    };
    let rows: String = versions.iter().map(row).collect();
    let body = format!(
        "<p>{} as it was at any time: <code>/wiki/{}?at=2026-11-27T19:31:37Z</code>, or \
         <code>?at=10m ago</code></p>\n\
         <table><tr><th>Time (UTC)</th><th>Revision</th><th>Author</th><th>Bytes</th>\
         <th>Comment</th></tr>\n{rows}</table>\n",
        link(title),
        encode(title)
    );
    frame(&format!("History of {title}"), &body)
}

/// One recent change.
pub fn change(change: &Change) -> String {
    format!(
        "<li>{} {}, revision {}, by {} <i>{}</i></li>\n",
        utc(change.at_ms),
        link(&change.title),
        change.page.revision,
        escape(&change.page.author),
        escape(&change.page.comment)
    )
}

/// Recent changes, the newest first.
pub fn recent(changes: &[Change]) -> String {
    let items: String = changes.iter().map(change).collect();
    frame("Recent changes", &format!("<ul id=\"recent\">{items}</ul>\n"))
}

/// A page that says what is wrong.
pub fn error(title: &str, why: &str) -> String {
    frame(title, &format!("<p class=\"conflict\">{}</p>\n", escape(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_795_721_497_250), "2026-11-26 19:31:37");
    }

    #[test]
    fn nothing_of_people_breaks_out() {
        let bad = "\"><script>x</script>'";
        let page = Page { revision: 1, text: bad.into(), author: bad.into(), comment: bad.into() };
        let title = bad.to_owned();
        let change = Change { at_ms: 0, title: bad.into(), page: page.clone() };
        let version = Version { at: bad.into(), at_ms: 0, page: page.clone(), bytes: 1 };
        for html in [
            super::page(bad, &page, Some(bad)),
            edit(bad, &page, Some(&page)),
            history(bad, &[version]),
            recent(&[change]),
            list(&[title], "none"),
            error(bad, bad),
        ] {
            assert!(!html.contains("<script>") && !html.contains("x</script>"), "{html}");
        }
    }
}
