//! Users as text, as `ACL LIST` and `ACL GETUSER` show them. Rules of commands stand there as they
//! were given, as in Redis 7.2, and not as the shortest ones that would do: commands that come with
//! later versions fall under the categories that somebody has named.

use crate::selector::Selector;
use crate::user::User;

impl Selector {
    /// The commands: `+@all -@dangerous +info`.
    pub fn commands_text(&self) -> String {
        let mut text = if self.begins_with_all { "+@all" } else { "-@all" }.to_owned();
        for rule in &self.command_rules {
            text.push(' ');
            text.push_str(rule);
        }
        text
    }

    /// The patterns of keys, with blanks between: `~cache:* %R~shared:*`.
    pub fn keys_text(&self) -> Vec<u8> {
        match &self.keys {
            None => b"~*".to_vec(),
            Some(patterns) => {
                let all = patterns
                    .iter()
                    .map(|(access, pattern)| [access.prefix().as_bytes(), pattern].concat());
                all.collect::<Vec<_>>().join(&b' ')
            }
        }
    }

    /// The patterns of channels: `&news:*`.
    pub fn channels_text(&self) -> Vec<u8> {
        match &self.channels {
            None => b"&*".to_vec(),
            Some(patterns) => {
                let all = patterns.iter().map(|pattern| [b"&", &pattern[..]].concat());
                all.collect::<Vec<_>>().join(&b' ')
            }
        }
    }

    /// The keyspaces, if not all: `db=orders,carts`.
    pub fn keyspaces_text(&self) -> Option<Vec<u8>> {
        let names = self.keyspaces.as_ref()?;
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        Some([b"db=", &names.join(&b',')[..]].concat())
    }

    /// All of it as rules that make it anew.
    fn rules_text(&self) -> Vec<u8> {
        let mut out = self.keys_text();
        if !out.is_empty() {
            out.push(b' ');
        }
        if self.channels.is_some() {
            out.extend_from_slice(b"resetchannels ");
        }
        let channels = self.channels_text();
        if !channels.is_empty() {
            out.extend_from_slice(&channels);
            out.push(b' ');
        }
        match (&self.keyspaces, self.keyspaces_text()) {
            (Some(names), _) if names.is_empty() => out.extend_from_slice(b"resetdbs "),
            (_, Some(text)) => {
                out.extend_from_slice(&text);
                out.push(b' ');
            }
            _ => {}
        }
        out.extend_from_slice(self.commands_text().as_bytes());
        out
    }
}

impl User {
    /// Its flags, as `ACL GETUSER` has them.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        flags.extend(self.sanitizes.map(|sanitizes| match sanitizes {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        }));
        flags
    }

    /// It as one line, as `ACL LIST` has it: `user ann on … ~* &* +@all`.
    pub fn line(&self) -> Vec<u8> {
        let mut out = [b"user ", &self.name[..]].concat();
        for flag in self.flags() {
            out.push(b' ');
            out.extend_from_slice(flag.as_bytes());
        }
        for password in &self.passwords {
            out.extend_from_slice(format!(" #{password}").as_bytes());
        }
        for (at, selector) in self.selectors.iter().enumerate() {
            let rules = selector.rules_text();
            match at {
                0 => out.extend_from_slice(&[b" ", &rules[..]].concat()),
                _ => out.extend_from_slice(&[b" (", &rules[..], b")"].concat()),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Commands;
    use crate::rule::Rule;
    use proptest::prelude::*;

    fn commands() -> Commands {
        Commands::new([
            ("get", "read string fast"),
            ("set", "write string slow"),
            ("config", "slow"),
            ("config|get", "admin slow dangerous"),
            ("config|set", "admin slow dangerous"),
        ])
    }

    fn user(words: &str) -> User {
        let commands = commands();
        let mut user = User::new(b"ann", &commands);
        // Words of a selector stand together here.
        let words =
            crate::rule::merge_selectors(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let rules: Vec<Rule> = words.unwrap().iter().map(|w| Rule::parse(w).unwrap()).collect();
        user.apply(&rules, &commands).unwrap();
        user
    }

    fn line(words: &str) -> String {
        String::from_utf8(user(words).line()).unwrap()
    }

    #[test]
    fn users_are_shown_as_redis_shows_them() {
        assert_eq!(line("off"), "user ann off resetchannels -@all");
        assert_eq!(line("on nopass ~* &* +@all"), "user ann on nopass ~* &* +@all");
        assert_eq!(
            line("on ~a %R~b %W~b %W~c &n +@all -config|get -config -@read +get db=x,y"),
            "user ann on ~a ~b %W~c resetchannels &n db=x,y +@all -config -@read \
             +get"
        );
        assert_eq!(
            line("(+get ~a) (+set resetdbs ~b)"),
            "user ann off resetchannels -@all (~a resetchannels -@all +get) (~b \
             resetchannels resetdbs -@all +set)"
        );
        let default = User::default_user(&commands());
        assert_eq!(
            String::from_utf8(default.line()).unwrap(),
            "user default on nopass ~* &* +@all"
        );
    }

    const WORDS: [&str; 24] = [
        "on",
        "off",
        "nopass",
        "resetpass",
        "reset",
        "allkeys",
        "resetkeys",
        "~a*",
        "%R~b",
        "%W~b",
        "allchannels",
        "resetchannels",
        "&n*",
        "+@all",
        "-@all",
        "+@read",
        "-@slow",
        "+config",
        "-config|set",
        "+get",
        "db=x",
        "alldbs",
        "resetdbs",
        "clearselectors",
    ];

    proptest! {
        #[test]
        fn what_is_written_of_a_user_makes_the_same_user(
            places in proptest::collection::vec(0..WORDS.len(), 0..40),
            own in proptest::collection::vec(5..23_usize, 0..5),
        ) {
            let commands = commands();
            let mut user = User::new(b"ann", &commands);
            for place in places {
                // Some are refused where they stand.
                let rule = Rule::parse(WORDS[place].as_bytes()).unwrap();
                let _refused = user.apply(&[rule], &commands);
            }
            let words: Vec<&str> = own.into_iter().map(|place| WORDS[place]).collect();
            if let Ok(selector) = Rule::parse(format!("({})", words.join(" ")).as_bytes()) {
                let _refused = user.apply(&[selector], &commands);
            }
            let line = user.line();
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').skip(2).collect();
            let words = crate::rule::merge_selectors(&words).unwrap();
            let rules: Vec<Rule> = words.iter().map(|w| Rule::parse(w).unwrap()).collect();
            let mut again = User::new(b"ann", &commands);
            again.apply(&rules, &commands).unwrap();
            prop_assert_eq!(again, user);
        }
    }
}
