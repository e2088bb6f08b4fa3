//! Reads all sources and puts the strongest value of each key into the settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::error::{ConfigProblem, ConfigProblems};
use super::flags::{ProgramAction, read_flags};
use super::key::ConfigKey;
use super::key_table::{KEYS, find_key};
use super::nearest::nearest_name;
use super::rules::check_rules;
use super::settings::GatewaySettings;
use super::source::{ConfigEntry, ConfigSource};
use super::value::RawValue;
use super::{environment, toml_file};

/// A configuration and where it comes from.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The values of all keys.
    pub settings: GatewaySettings,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The sources of the keys that are set, by name.
    sources: BTreeMap<&'static str, ConfigSource>,
}

/// The arguments and variables of a program, which stay the same when its file is read again.
#[derive(Clone, Debug, Default)]
pub struct ProgramInput {
    /// The arguments after the name of the program.
    pub arguments: Vec<String>,
    /// The environment.
    pub variables: Vec<(String, String)>,
}

impl ProgramInput {
    /// Returns those of this process. What is not UTF-8 is replaced by U+FFFD, and refused where it matters.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self {
            arguments: std::env::args_os().skip(1).map(text).collect(),
            variables: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
        }
    }

    /// Returns what the program is asked to do. Help and version are asked for even among wrong flags.
    #[must_use]
    pub fn action(&self) -> ProgramAction {
        read_flags(self.arguments.iter().cloned()).action
    }

    /// Reads the configuration: flags over variables over the file over defaults.
    ///
    /// # Errors
    /// All problems of all sources.
    pub fn load(&self) -> Result<LoadedConfig, ConfigProblems> {
        let line = read_flags(self.arguments.iter().cloned());
        let of_variable = self
            .variables
            .iter()
            .find(|(name, value)| name == environment::FILE_VARIABLE && !value.is_empty());
        let file = line.file.or_else(|| of_variable.map(|(_, path)| PathBuf::from(path)));
        let mut problems = line.problems;
        let in_file = match file.as_deref().map(toml_file::read_file).transpose() {
            Ok(entries) => entries.unwrap_or_default(),
            Err(problem) => {
                problems.push(problem);
                Vec::new()
            }
        };
        let in_environment = environment::read_variables(self.variables.iter().cloned());
        let mut config =
            LoadedConfig { settings: GatewaySettings::default(), file, sources: BTreeMap::new() };
        for entries in [in_file, in_environment, line.entries] {
            config.apply(entries, &mut problems);
        }
        if problems.is_empty() {
            problems = check_rules(&config);
        }
        config.settings.complete();
        match problems.is_empty() {
            true => Ok(config),
            false => Err(ConfigProblems(problems)),
        }
    }
}

impl LoadedConfig {
    /// Returns the source of a key.
    #[must_use]
    pub fn source_of(&self, name: &str) -> ConfigSource {
        self.sources.get(name).cloned().unwrap_or(ConfigSource::Default)
    }

    /// True if a source has set the key.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.sources.contains_key(name)
    }

    /// Describes the keys that are set, a line for each: the value and the source. Secrets are hidden.
    #[must_use]
    pub fn description(&self) -> String {
        let set = KEYS.iter().filter_map(|key| Some((key, self.sources.get(key.name)?)));
        set.map(|(key, source)| {
            format!("{} = {} ({source})\n", key.name, key.shown_in(&self.settings))
        })
        .collect()
    }

    /// Returns the names of the keys in which two configurations differ and that SIGHUP does not apply.
    #[must_use]
    pub fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        let differs = |key: &&ConfigKey| (key.get)(&self.settings) != (key.get)(&new.settings);
        KEYS.iter().filter(|key| !key.can_reload).filter(differs).map(|key| key.name).collect()
    }

    /// Applies the entries of one source.
    fn apply(&mut self, entries: Vec<ConfigEntry>, problems: &mut Vec<ConfigProblem>) {
        let mut seen: Vec<&'static str> = Vec::new();
        for ConfigEntry { name, value, source } in entries {
            let Some(key) = find_key(&name) else {
                problems.push(unknown(name, source));
                continue;
            };
            if seen.contains(&key.name) {
                problems.push(ConfigProblem::Repeated { name, place: source });
                continue;
            }
            seen.push(key.name);
            match key.read(&value) {
                Some(accepted) => {
                    (key.set)(&mut self.settings, accepted);
                    self.sources.insert(key.name, source);
                }
                None => problems.push(ConfigProblem::Value {
                    name: key.name,
                    place: source,
                    shown: shown(key, &value),
                    accepts: key.accepts(),
                }),
            }
        }
    }
}

fn unknown(name: String, place: ConfigSource) -> ConfigProblem {
    let nearest = match place {
        ConfigSource::Variable(_) => nearest_name(&name, KEYS.iter().map(ConfigKey::variable)),
        _ => nearest_name(&name, KEYS.iter().map(|key| key.name.to_owned())),
    };
    ConfigProblem::UnknownKey { name, place, nearest }
}

/// Shows a refused value.
fn shown(key: &ConfigKey, value: &RawValue) -> String {
    match value {
        _ if key.is_secret() => String::from("(hidden)"),
        RawValue::Text(text) => format!("{text:?}"),
        RawValue::Number(number) => number.clone(),
        RawValue::Flag(is_on) => is_on.to_string(),
        RawValue::List(texts) => format!("{texts:?}"),
        RawValue::Other(kind) => (*kind).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn input(arguments: &[&str], variables: &[(&str, &str)]) -> ProgramInput {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        ProgramInput {
            arguments: arguments.iter().map(|argument| (*argument).into()).collect(),
            variables: variables.collect(),
        }
    }

    /// Loads with a file of this content; `FILE` in the arguments stands for its path, also in what is returned.
    fn load_with(
        content: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<LoadedConfig, String> {
        let name = std::thread::current().name().unwrap_or_default().replace("::", "-");
        let path = std::env::temp_dir().join(format!("{name}-{}.toml", std::process::id()));
        fs::write(&path, content).unwrap();
        let path_text = path.display().to_string();
        let arguments: Vec<_> =
            arguments.iter().map(|each| if *each == "FILE" { &path_text } else { *each }).collect();
        let loaded = input(&arguments, variables).load();
        fs::remove_file(&path).unwrap();
        loaded.map_err(|problems| problems.to_string().replace(&path_text, "FILE"))
    }

    #[test]
    fn g06_flags_are_stronger_than_variables_and_those_than_the_file() {
        let file = "port = 1\ndrain = \"1s\"\nbind = \"::1\"\n[topics]\nmax_bytes = 100\n";
        let variables = [("WATERWHEEL_PORT", "2"), ("WATERWHEEL_DRAIN", "2s")];
        let config = load_with(file, &["--port", "3", "--config", "FILE"], &variables).unwrap();
        let settings = &config.settings;
        assert_eq!((settings.port, settings.drain.as_secs()), (3, 2));
        assert_eq!((settings.bind.as_str(), settings.topics.max_bytes), ("::1", 100));
        assert_eq!(settings.access.claims.topics.max_bytes, 100, "filters of tokens have them too");
        let sources = ["port", "drain", "bind", "loops"].map(|key| config.source_of(key));
        let sources = sources.map(|source| source.to_string());
        assert_eq!(sources[0], "--port");
        assert_eq!(sources[1], "WATERWHEEL_DRAIN");
        assert!(sources[2].ends_with(".toml:3"), "{}", sources[2]);
        assert_eq!(sources[3], "default");
    }

    #[test]
    fn g06_the_file_may_be_named_by_a_variable() {
        let missing = [("WATERWHEEL_CONFIG", "/does/not/exist.toml")];
        let told = input(&[], &missing).load().unwrap_err().to_string();
        assert!(told.starts_with("/does/not/exist.toml: the file cannot be read"), "{told}");
        let empty = [("WATERWHEEL_CONFIG", "")];
        assert_eq!(input(&[], &empty).load().unwrap().file, None);
    }

    #[test]
    fn g06_all_problems_are_told_with_key_place_and_accepted_values() {
        let file =
            "port = 70000\nprot = 1\n[tls]\ncertificate = 5\n[topics]\nmax_bytes = \"4 kB\"\n";
        let variables = [("WATERWHEEL_DRAIN", "soon"), ("WATERWHEEL_TLS_CERTIFICAT", "a")];
        let arguments = ["--config", "FILE", "--loops", "none", "--colour", "red"];
        let told = load_with(file, &arguments, &variables).unwrap_err();
        let expected = "\
command line: there is no key --colour
the argument \"red\" is not a flag; flags begin with --, see --help
FILE:1: port = 70000 is not accepted: port is a number from 0 to 65535
FILE:2: there is no key prot; port is the nearest one
FILE:4: tls.certificate = 5 is not accepted: tls.certificate is a path
WATERWHEEL_TLS_CERTIFICAT: there is no key WATERWHEEL_TLS_CERTIFICAT; WATERWHEEL_TLS_CERTIFICATE is the nearest one
WATERWHEEL_DRAIN: drain = \"soon\" is not accepted: drain is a time from 0s to 1h
--loops: loops = \"none\" is not accepted: loops is a number from 1 to 1024, or auto";
        assert_eq!(told, expected);
    }

    #[test]
    fn g06_a_key_that_is_set_twice_by_one_source_is_refused() {
        let told = input(&["--port", "1", "--port=2"], &[]).load().unwrap_err().to_string();
        assert_eq!(told, "--port: port is set twice");
    }

    #[test]
    fn g06_keys_that_need_each_other_are_refused_alone() {
        let of = [
            (
                "--tls-certificate",
                "--tls-certificate: tls.certificate needs tls.key, which is not set",
            ),
            ("--tls-key", "--tls-key: tls.key needs tls.certificate, which is not set"),
            (
                "--tls-client-ca",
                "--tls-client-ca: tls.client_ca needs tls.certificate, which is not set",
            ),
        ];
        for (flag, expected) in of {
            assert_eq!(input(&[flag, "a.pem"], &[]).load().unwrap_err().to_string(), expected);
        }
        let both = [("WATERWHEEL_ADMIN_KEY", "k"), ("WATERWHEEL_ADMIN_KEY_FILE", "f")];
        let told = input(&[], &both).load().unwrap_err().to_string();
        assert!(told.contains("admin.key_file (WATERWHEEL_ADMIN_KEY_FILE) are both set"), "{told}");
    }

    #[test]
    fn g06_an_engine_needs_the_url_of_its_server_without_a_password_in_it() {
        let told = |arguments: &[&str]| input(arguments, &[]).load().unwrap_err().to_string();
        let kind = "--engine-kind=redis";
        let expected = "--engine-kind: engine.kind needs engine.url, which is not set";
        assert_eq!(told(&[kind]), expected);
        let with_password = told(&[kind, "--engine-url", "redis://ann:secret@localhost"]);
        assert!(with_password.contains("engine.password"), "{with_password}");
        assert!(!with_password.contains("secret@"), "{with_password}");
        assert!(told(&["--engine-url", "redis://localhost"]).contains("engine.kind is memory"));
        assert!(input(&[kind, "--engine-url", "rediss://a:1,b:2/3"], &[]).load().is_ok());
        let kind = "--engine-kind=nats";
        assert_eq!(told(&[kind]), expected);
        let with_token = told(&[kind, "--engine-url", "nats://secret@localhost"]);
        assert!(with_token.contains("engine.password"), "{with_token}");
        assert!(!with_token.contains("secret@"), "{with_token}");
        assert!(input(&[kind, "--engine-url", "tls://a:1,b:2"], &[]).load().is_ok());
    }

    #[test]
    fn g06_secrets_are_read_and_never_shown() {
        const SECRET: &str = "do-not-show-this-0123456789abcdef";
        let file = format!("[tokens]\nsecret = \"{SECRET}\"\njwks = [\"a.json\", \"b.json\"]\n");
        let variables = [("WATERWHEEL_ADMIN_KEY", SECRET)];
        let config = load_with(&file, &["--config", "FILE"], &variables).unwrap();
        assert_eq!(config.settings.access.token_keys.len(), 3);
        let admin = config.settings.access.admin_key.as_ref().unwrap();
        assert!(admin.is_equal_to(SECRET.as_bytes()));
        let shown = format!("{}{config:?}", config.description());
        assert!(!shown.contains("do-not-show") && shown.contains("(hidden)"), "{shown}");
        let wrong = format!("[tokens]\nsecret = [\"{SECRET}\"]\n");
        let told = load_with(&wrong, &["--config", "FILE"], &[]).unwrap_err();
        assert!(told.contains("tokens.secret = (hidden) is not accepted"), "{told}");
        // A line that is not TOML is not quoted.
        let broken = format!("[tokens]\nsecret = {SECRET} {SECRET}\n");
        let told = load_with(&broken, &["--config", "FILE"], &[]).unwrap_err();
        assert!(told.starts_with("FILE:2: not TOML") && !told.contains("do-not-show"), "{told}");
    }

    #[test]
    fn g06_a_reload_tells_which_changes_need_a_restart() {
        let before = input(&["--port", "1", "--log-level", "info"], &[]).load().unwrap();
        let after = input(&["--port", "2", "--log-level", "debug"], &[]).load().unwrap();
        assert_eq!(before.fixed_changes(&after), ["port"]);
        assert_eq!(before.fixed_changes(&before), [""; 0]);
    }
}
