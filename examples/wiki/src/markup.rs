//! What does a page's text mean? The part of MediaWiki's markup that most pages need.
//!
//! | text | means |
//! |---|---|
//! | `== Title ==` | a heading, of two to four signs |
//! | `[[Bell]]`, `[[Bell\|bells]]` | a link to a page |
//! | `[[Category:Instruments]]` | the page is in that category; nothing is shown |
//! | `[https://example.org here]` | a link elsewhere |
//! | `'''bold'''`, `''italic''` | so |
//! | `* one`, `# one` | items of lists |
//! | an empty line | the next paragraph |
//!
//! All else is text. Nothing of a page comes into HTML but by [`escape`].

use std::collections::BTreeSet;

/// Links and categories of one page.
pub const LINKS_MAX: usize = 500;
/// The longest title.
pub const TITLE_BYTES_MAX: usize = 200;

/// What a page refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Pages that it links to.
    pub links: BTreeSet<String>,
    /// Categories that it is in.
    pub categories: BTreeSet<String>,
}

/// A title as it is stored: blanks for underscores, its first letter a capital. None if it cannot
/// be one.
pub fn title(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(['_', ' ']).filter(|word| !word.is_empty()).collect();
    let joined = words.join(" ");
    let mut letters = joined.chars();
    let first = letters.next()?;
    let is_bad = |letter: char| letter.is_control() || "[]{}|<>#".contains(letter);
    let title: String = first.to_uppercase().chain(letters).collect();
    (title.len() <= TITLE_BYTES_MAX && !title.chars().any(is_bad)).then_some(title)
}

/// Text as HTML shows it.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Text as a part of a path or a query.
pub fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char);
            }
            b' ' => out.push('_'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// A link's target and what it shows; a category if it is one.
enum Link<'a> {
    Page { target: String, shown: &'a str },
    Category(String),
}

fn link(inner: &str) -> Option<Link<'_>> {
    let (target, shown) = inner.split_once('|').unwrap_or((inner, inner));
    if let Some(name) = target.trim().strip_prefix("Category:") {
        return title(name).map(Link::Category);
    }
    // A part of a page is that page.
    let page = target.split('#').next().unwrap_or_default();
    title(page).map(|target| Link::Page { target, shown: shown.trim() })
}

/// The next piece of a line.
enum Piece<'a> {
    Text(&'a str),
    Link(Link<'a>),
    Elsewhere { url: &'a str, shown: &'a str },
    Quotes(usize),
}

/// What stands before the next bracket, if `end` stands there. So no text is looked at for each
/// bracket again.
fn until<'a>(text: &'a str, end: &str) -> Option<&'a str> {
    let bracket = text.find(['[', ']'])?;
    text[bracket..].starts_with(end).then(|| &text[..bracket])
}

/// Cuts a line into pieces.
fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let (mut rest, mut plain) = (line, 0);
    while plain < rest.len() {
        let tail = &rest[plain..];
        let found =
            if let Some(inner) = tail.strip_prefix("[[").and_then(|inner| until(inner, "]]")) {
                link(inner).map(|link| (Piece::Link(link), inner.len() + 4))
            } else if let Some(inner) = tail.strip_prefix('[').and_then(|inner| until(inner, "]")) {
                let (url, shown) = inner.split_once(' ').unwrap_or((inner, inner));
                let is_web = url.starts_with("https://") || url.starts_with("http://");
                is_web.then_some((Piece::Elsewhere { url, shown }, inner.len() + 2))
            } else {
                let quotes = tail.bytes().take(3).take_while(|byte| *byte == b'\'').count();
                (quotes >= 2).then_some((Piece::Quotes(quotes), quotes))
            };
        match found {
            Some((piece, bytes)) => {
                if plain > 0 {
                    all.push(Piece::Text(&rest[..plain]));
                }
                all.push(piece);
                (rest, plain) = (&tail[bytes..], 0);
            }
            None => plain += tail.chars().next().map_or(1, char::len_utf8),
        }
    }
    if !rest.is_empty() {
        all.push(Piece::Text(rest));
    }
    all
}

/// What a text refers to, as far as the limit.
pub fn references(text: &str) -> References {
    let mut found = References::default();
    for piece in text.lines().flat_map(pieces) {
        if found.links.len() + found.categories.len() >= LINKS_MAX {
            break;
        }
        match piece {
            Piece::Link(Link::Page { target, .. }) => drop(found.links.insert(target)),
            Piece::Link(Link::Category(name)) => drop(found.categories.insert(name)),
            Piece::Text(_) | Piece::Elsewhere { .. } | Piece::Quotes(_) => {}
        }
    }
    found
}

/// A line as HTML.
fn inline(line: &str) -> String {
    let mut out = String::new();
    // What is open, innermost last.
    let mut open: Vec<&str> = Vec::new();
    for piece in pieces(line) {
        match piece {
            Piece::Text(text) => out += &escape(text),
            Piece::Link(Link::Category(_)) => {}
            Piece::Link(Link::Page { target, shown }) => {
                out += &format!("<a href=\"/wiki/{}\">{}</a>", encode(&target), escape(shown));
            }
            Piece::Elsewhere { url, shown } => {
                let (url, shown) = (escape(url), escape(shown));
                out +=
                    &format!("<a class=\"elsewhere\" rel=\"nofollow\" href=\"{url}\">{shown}</a>");
            }
            Piece::Quotes(count) => {
                let tag = if count == 2 { "i" } else { "b" };
                if open.contains(&tag) {
                    // What was opened within it ends as well.
                    while let Some(inner) = open.pop() {
                        out += &format!("</{inner}>");
                        if inner == tag {
                            break;
                        }
                    }
                } else {
                    open.push(tag);
                    out += &format!("<{tag}>");
                }
            }
        }
    }
    open.iter().rev().for_each(|tag| out += &format!("</{tag}>"));
    out
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let signs = line.bytes().take_while(|byte| *byte == b'=').count();
    let inner = line.get(signs..)?.strip_suffix(&"=".repeat(signs))?;
    ((2..=4).contains(&signs) && !inner.trim().is_empty()).then_some((signs, inner.trim()))
}

/// A text as HTML.
pub fn html(text: &str) -> String {
    let mut out = String::new();
    // The element that lines go into, if one is open.
    let mut open: Option<&str> = None;
    for line in text.lines() {
        let line = line.trim_end();
        let (wanted, body) = match line.bytes().next() {
            None => (None, String::new()),
            Some(b'*') => (Some("ul"), format!("<li>{}</li>\n", inline(line[1..].trim()))),
            Some(b'#') => (Some("ol"), format!("<li>{}</li>\n", inline(line[1..].trim()))),
            Some(_) => match heading(line) {
                Some((level, title)) => (None, format!("<h{level}>{}</h{level}>\n", inline(title))),
                None => (Some("p"), inline(line) + "\n"),
            },
        };
        // A line that names a category alone is none.
        if wanted == Some("p") && body == "\n" {
            continue;
        }
        if open != wanted {
            open.iter().for_each(|tag| out += &format!("</{tag}>\n"));
            wanted.iter().for_each(|tag| out += &format!("<{tag}>"));
            open = wanted;
        }
        out += &body;
    }
    open.iter().for_each(|tag| out += &format!("</{tag}>\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_one_form() {
        assert_eq!(title("the_ Bell").as_deref(), Some("The Bell"));
        assert_eq!(title("über uns").as_deref(), Some("Über uns"));
        for bad in ["", "_", "a[b", "a\nb", "<b>", "a|b", &"x".repeat(201)] {
            assert_eq!(title(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn references_are_links_and_categories() {
        let text =
            "[[bell]] and [[bell|bells]], [[The_Tower#Top]]\n[[Category:instruments]] [[]] [[";
        let found = references(text);
        assert_eq!(found.links, ["Bell", "The Tower"].map(str::to_owned).into());
        assert_eq!(found.categories, ["Instruments".to_owned()].into());
        let many: String = (0..LINKS_MAX + 9).map(|number| format!("[[Page {number}]]")).collect();
        assert_eq!(references(&many).links.len(), LINKS_MAX);
    }

    #[test]
    fn text_becomes_html() {
        for (text, expected) in [
            ("one\ntwo\n\nthree", "<p>one\ntwo\n</p>\n<p>three\n</p>\n"),
            ("== A ''b'' ==", "<h2>A <i>b</i></h2>\n"),
            ("* a\n* b\n# c", "<ul><li>a</li>\n<li>b</li>\n</ul>\n<ol><li>c</li>\n</ol>\n"),
            ("'''bold ''both'' bold'''", "<p><b>bold <i>both</i> bold</b>\n</p>\n"),
            ("'''a ''b''' c''", "<p><b>a <i>b</i></b> c<i></i>\n</p>\n"),
            ("''open", "<p><i>open</i>\n</p>\n"),
            ("[[bell|a < b]]", "<p><a href=\"/wiki/Bell\">a &lt; b</a>\n</p>\n"),
            ("[[Category:X]]\nb", "<p>b\n</p>\n"),
            ("= b", "<p>= b\n</p>\n"),
        ] {
            assert_eq!(html(text), expected, "{text}");
        }
    }

    /// If a bracket or a quote had what follows it read each time, this would take minutes.
    #[test]
    fn a_long_line_of_brackets_is_read_once() {
        for unit in ["[", "[[", "]", "[[a", "[https://a ", "'", "''x", "[[a|"] {
            let text = unit.repeat((1 << 20) / unit.len());
            assert!(html(&text).len() > text.len());
            assert!(references(&text).links.is_empty());
        }
    }

    #[test]
    fn no_text_breaks_out_of_html() {
        for text in [
            "<script>alert(1)</script>",
            "[javascript:alert(1) here]",
            "[https://a\"onclick=\"x here]",
            "[[a\"onclick=x|<b>]]",
            "[[<script>]]",
            "== <b> ==",
            "* <b>",
        ] {
            let html = html(text);
            assert!(!html.contains("<script") && !html.contains("<b>"), "{html}");
            assert!(!html.contains("href=\"javascript"), "{html}");
            assert!(!html.contains("\"onclick"), "{html}");
        }
    }
}
