//! The help of the program and the table of the guide, both from the table of keys.

use std::fmt::Write;

use super::flags::OTHER_FLAGS;
use super::key::ConfigKey;
use super::key_table::KEYS;
use super::settings::GatewaySettings;

/// Width of the column of flags in the help.
const FLAG_WIDTH: usize = 34;

/// Returns the text of `--help`.
#[must_use]
pub fn help_text() -> String {
    let mut text = String::from(
        "A push gateway: clients subscribe to topics and publish, by WebSocket, server-sent events, HTTP or lines of text\n\n\
         Usage: gateway [--config FILE] [--KEY VALUE]...\n\n",
    );
    let mut add = |flag: &str, help: &str| {
        let gap = if flag.len() > FLAG_WIDTH { "\n" } else { "" };
        let pad = if gap.is_empty() { FLAG_WIDTH - flag.len() } else { FLAG_WIDTH + 2 };
        let written = writeln!(text, "  {flag}{gap}{:pad$}  {help}", "");
        debug_assert!(written.is_ok(), "a string takes everything");
    };
    for (flag, help) in OTHER_FLAGS {
        add(flag, help);
    }
    let defaults = GatewaySettings::default();
    for key in KEYS.iter().filter(|key| !key.is_secret()) {
        let default = match key.shown_in(&defaults) {
            shown if shown.is_empty() => shown,
            shown => format!(" [{shown}]"),
        };
        add(&format!("{} {}", key.flag(), placeholder(key)), &format!("{}{default}", key.help));
    }
    text.push_str(
        "\nEach flag is also a variable, WATERWHEEL_KEY, and a key of the file; docs/GATEWAY.md has the table. Secrets are \
         no flags.\n\
         Flags are stronger than variables, variables than the file.\n\n\
         SIGTERM or Ctrl-C ends the gateway after every accepted publication is delivered; a second one ends it at once.\n\
         SIGHUP reads the configuration, certificates and keys again. SIGUSR2 starts a new process that takes over.\n\n\
         Exit status: 0 ended in order; 1 failed; 2 the configuration is not usable; 130, 143 ended by a second signal.\n",
    );
    text
}

/// Returns the table of the guide: a line for each key.
#[must_use]
pub fn guide_table() -> String {
    let mut text =
        String::from("| key | default | accepts | SIGHUP | meaning |\n|---|---|---|---|---|\n");
    let defaults = GatewaySettings::default();
    for key in KEYS.iter() {
        let default = match (key.is_secret(), key.shown_in(&defaults)) {
            (true, _) => String::new(),
            (false, shown) if shown.is_empty() => String::new(),
            (false, shown) => format!("`{shown}`"),
        };
        let reload = if key.can_reload { "yes" } else { "" };
        let accepts = key.accepts();
        let written =
            writeln!(text, "| `{}` | {default} | {accepts} | {reload} | {} |", key.name, key.help);
        debug_assert!(written.is_ok(), "a string takes everything");
    }
    text
}

fn placeholder(key: &ConfigKey) -> &'static str {
    use super::value::ValueKind as Kind;
    match key.kind {
        Kind::Flag => "",
        Kind::Count(..) => "N",
        Kind::Size(..) => "SIZE",
        Kind::Time(..) => "TIME",
        Kind::Choice(_) => "WORD",
        Kind::Text | Kind::Secret => "TEXT",
        Kind::Path => "FILE",
        Kind::Texts => "TEXT,TEXT",
        Kind::Paths => "FILE,FILE",
        Kind::Networks => "NETWORK,NETWORK",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guide has the table as it follows from the keys. To renew the page, put the text of the message in.
    #[test]
    fn g06_the_guide_has_the_table_of_all_keys() {
        let guide = include_str!("../../../../docs/GATEWAY_CONFIG.md");
        let table = guide_table();
        assert!(
            guide.contains(&table),
            "docs/GATEWAY_CONFIG.md has another table than this:\n{table}"
        );
    }

    #[test]
    fn g06_the_help_has_every_flag_and_no_line_that_is_too_long() {
        let help = help_text();
        for key in KEYS.iter() {
            let line = format!("  {} ", key.flag());
            assert_eq!(help.contains(&line), !key.is_secret(), "{}", key.name);
        }
        for line in help.lines() {
            assert!(line.chars().count() <= 160, "{line}");
        }
    }
}
