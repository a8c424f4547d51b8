//! The three forms of every setting, their precedence, and the errors of bad values.

use std::ffi::OsString;
use std::fs;

use proptest::prelude::*;

use super::*;
use crate::logging::{Format, Level};
use api::Durability;

fn from(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let config = unchecked(text, environment, flags)?;
    config.check()?;
    Ok(config)
}

/// As [`from`], but whether settings fit each other is not looked at.
fn unchecked(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    apply_file(&mut config, Path::new("c.toml"), text)?;
    let owned = environment.iter().map(|(name, value)| (name.into(), value.into()));
    apply_environment(&mut config, &ours(owned))?;
    let flags: Vec<_> = flags.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    apply_flags(&mut config, &flags)?;
    Ok(config)
}

fn error(text: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    from(text, environment, flags).unwrap_err().to_string()
}

#[test]
fn old_name_of_renamed_setting_is_refused_with_the_new_one() {
    assert_eq!(
        error("move_rate = 1", &[], &[]),
        "the setting `move_rate` in c.toml is now called `snapshot_rate`: write that instead. \
         Nothing was started"
    );
    assert_eq!(
        error("", &[("CARILLON_LEVEL_MAX", "2")], &[]),
        "the setting CARILLON_LEVEL_MAX is now called `CARILLON_CLUSTER_VERSION_MAX`: write that \
         instead. Nothing was started"
    );
    assert_eq!(
        error("", &[], &[("check-interval-ms", "1")]),
        "the setting --check-interval-ms is now called `--consistency-check-interval-ms`: write \
         that instead. Nothing was started"
    );
    for (old, new) in RENAMED {
        let is_known = |name: &str| SETTINGS.iter().any(|setting| setting.name == name);
        assert!(!is_known(old) && is_known(new), "{old} {new}");
    }
}

#[test]
fn defaults_are_as_promised() {
    let config = from("", &[], &[]).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.resp, Listen::On("127.0.0.1:6379".parse().unwrap()));
    assert_eq!(config.native, Listen::On("127.0.0.1:7400".parse().unwrap()));
    assert_eq!(config.http, Listen::On("127.0.0.1:7480".parse().unwrap()));
    assert_eq!(config.key_bytes_max, 64 << 10);
    assert_eq!(config.value_bytes_max, 64 << 20);
    assert_eq!(config.segment_bytes, 64 << 20);
    assert_eq!(config.interval_ms, 100);
    assert_eq!(config.retention_ms, 60_000);
    assert_eq!(config.durability, Durability::Sync);
    assert_eq!(config.memory_max, MemoryMax::Percent(60));
    assert_eq!((config.log_level, config.log_format), (Level::Info, Format::Text));
    assert!(!config.insecure && config.threads_count() >= 1);
    assert_eq!(config.supported_versions(), keyspace::VersionRange::OURS);
    assert_eq!(config.memory_max.bytes(1000), 600);
}

/// A value other than the default, in its TOML form, for every setting.
fn other(setting: &Setting) -> (&'static str, String) {
    let value = match setting.name {
        "dir" => "/elsewhere",
        "name" => "ferdinand",
        "resp" | "native" | "nbd" | "http" => "127.0.0.1:0",
        "resp_tls" | "native_tls" | "http_tls" => "127.0.0.1:0",
        "peer" | "resp_replica" => "127.0.0.1:0",
        "join" => "db1.example:7600,[::1]:7600",
        "advertise" => "db.example:7601",
        "peer_secret_file" | "password_file" | "record" => "/etc/secret",
        "tls_cert_file" | "tls_key_file" | "tls_client_ca_file" => "/etc/pem",
        "peer_tls_cert_file" | "peer_tls_key_file" | "peer_tls_ca_file" => "/etc/pem",
        "tls_client_crl_file" | "peer_tls_crl_file" => "/etc/pem",
        "peer_tls_name" => "node.db.example",
        "nbd_tls" => "required",
        "domain" => "rack 7",
        "replicas" => "5",
        "insecure" => "true",
        "balance" => "false",
        "native_error_reason" => "true",
        "auto_upgrade" => "false",
        "cluster_version_max" => "1",
        "threads" => "3",
        "connections_max" | "http_connections_max" => "77",
        "memory_max" => "33%",
        "resp_mode" => "cluster",
        "placement" => "symmetric",
        "lookup" | "resp_lookup" | "http_lookup" => "chord recursive noimages",
        "durability" => "memory",
        "log_level" => "warn",
        "log_format" => "json",
        "key_bytes_max" => "5KiB",
        "value_bytes_max" => "3mb",
        "snapshot_rate" | "split_bytes" | "merge_bytes" => "8MiB",
        "split_rate" | "split_keys" => "7000",
        "segment_bytes"
        | "script_memory_bytes"
        | "script_cache_bytes"
        | "record_bytes_max"
        | "snapshot_bytes_max"
        | "pubsub_output_bytes_max" => "128 MiB",
        "script_instructions" | "tracking_keys_max" => "123456",
        "script_threads" => "3",
        "checkpoint_log_bytes" | "input_bytes_max" | "output_bytes_max" => "1GiB",
        "output_bytes_total_max" => "2GiB",
        "resp_advertise_port" | "resp_replica_advertise_port" => "6380",
        _ if setting.name.ends_with("_ms") => "1234",
        name => panic!("{name} has no value to try here"),
    };
    let bare = matches!(setting.toml, kind::Toml::Switch) || value.parse::<u64>().is_ok();
    let toml = if bare { value.to_owned() } else { format!("{value:?}") };
    (value, format!("{} = {toml}", setting.name))
}

#[test]
fn every_setting_has_three_forms_that_mean_the_same() {
    for setting in SETTINGS {
        let (value, toml) = other(setting);
        let by_file = unchecked(&toml, &[], &[]).unwrap();
        let by_environment = unchecked("", &[(&setting.variable(), value)], &[]).unwrap();
        let by_flag = unchecked("", &[], &[(&setting.flag(), value)]).unwrap();
        assert_ne!(by_file, Config::default(), "{}", setting.name);
        assert_eq!(by_file, by_environment, "{}", setting.name);
        assert_eq!(by_file, by_flag, "{}", setting.name);
        assert!(!setting.help.trim().is_empty());
    }
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let text = "threads = 1\nname = \"file\"\ninterval_ms = 5";
    let environment = [("CARILLON_THREADS", "2"), ("CARILLON_NAME", "environment"), ("HOME", "/")];
    let config = from(text, &environment, &[("threads", "3")]).unwrap();
    assert_eq!((config.threads, config.name.as_str(), config.interval_ms), (3, "environment", 5));
}

#[test]
fn a_rate_has_an_end_or_none() {
    let rate =
        |text: &str| from(text, &[], &[]).map(|config| config.snapshot_rate.map(|rate| rate.get()));
    assert_eq!(rate("").unwrap(), Some(64 << 20));
    for none in ["snapshot_rate = 0", "snapshot_rate = \"0\"", "snapshot_rate = \"off\""] {
        assert_eq!(rate(none).unwrap(), None, "{none}");
    }
    assert_eq!(rate("snapshot_rate = 100000").unwrap(), Some(100_000));
    for wrong in ["1KiB", "none", "-1", "2TiB", "", "64MiB/s"] {
        let error = rate(&format!("snapshot_rate = {wrong:?}")).unwrap_err().to_string();
        assert!(error.contains("64KiB") && error.contains("or off"), "{error}");
    }
}

#[test]
fn a_key_may_be_as_long_as_the_engine_takes_it_and_no_longer() {
    let longest = |bytes: u64| {
        let config = from(&format!("key_bytes_max = {bytes}"), &[], &[]);
        config.map(|config| config.key_bytes_max)
    };
    let most = storage::engine::KEY_BYTES_MAX as u64;
    assert_eq!(longest(most).unwrap(), most);
    assert!(longest(most + 1).unwrap_err().to_string().contains("key_bytes_max"));
}

#[test]
fn sizes_and_times_take_units() {
    let sizes = [
        ("1048576", 1 << 20),
        ("1MiB", 1 << 20),
        ("1m", 1 << 20),
        ("2 GiB", 2 << 30),
        ("3gb", 3_000_000_000),
        ("1500kb", 1_500_000),
        ("2048K", 2 << 20),
    ];
    for (text, bytes) in sizes {
        let config = from("", &[], &[("segment-bytes", text)]).unwrap();
        assert_eq!(config.segment_bytes, bytes, "{text}");
    }
    let config = from("", &[], &[("retention-ms", "7d"), ("idle-timeout-ms", "5m")]).unwrap();
    assert_eq!((config.retention_ms, config.idle_timeout_ms), (7 * 86_400_000, 300_000));
    for text in [
        "",
        "MiB",
        "1.5GiB",
        "-1",
        "1 potato",
        "99999999999999999999",
        "18446744073709551615TiB",
        "5PB",
    ] {
        assert!(from("", &[], &[("segment-bytes", text)]).is_err(), "{text}");
    }
}

#[test]
fn unknown_names_suggest_the_nearest_in_the_same_form() {
    assert_eq!(
        error("memry_max = 1", &[], &[]),
        "unknown setting `memry_max` in c.toml; did you mean `memory_max`?"
    );
    assert_eq!(
        error("", &[("CARILLON_MEMRY_MAX", "1")], &[]),
        "unknown setting CARILLON_MEMRY_MAX; did you mean `CARILLON_MEMORY_MAX`?"
    );
    assert_eq!(
        error("", &[], &[("memry-max", "1")]),
        "unknown setting --memry-max; did you mean `--memory-max`?"
    );
    assert_eq!(
        error("[cluster]\nx = 1", &[], &[]),
        "unknown setting `cluster` in c.toml; `carillon start --help` lists all settings"
    );
}

#[test]
fn bad_setting_error_names_accepted_values() {
    assert_eq!(
        error("segment_bytes = \"1KiB\"", &[], &[]),
        "bad value \"1KiB\" of `segment_bytes` in c.toml: expected a size such as 4096, 64KiB, \
         512MiB or 2GB, from 1MiB to 4GiB"
    );
    assert_eq!(
        error("", &[("CARILLON_DURABILITY", "fsync")], &[]),
        "bad value \"fsync\" of CARILLON_DURABILITY: expected sync, interval or memory"
    );
    assert_eq!(
        error("", &[], &[("resp", "example.org:6379")]),
        "bad value \"example.org:6379\" of --resp: expected an address such as 127.0.0.1:7480 or \
         [::1]:7480, or off"
    );
    assert!(error("insecure = 1", &[], &[]).contains("expected true or false"));
    assert!(error("dir = 7", &[], &[]).contains("expected a path"));
    assert!(error("name = [1, 2]", &[], &[]).contains("bad value \"[1, 2]\""));
    assert!(error("", &[], &[("memory-max", "0%")]).contains("60%"));
    assert!(error("", &[], &[("memory-max", "100%")]).contains("60%"));
    assert!(error("name = ", &[], &[]).starts_with("the configuration file c.toml is not valid"));
    let long = "x".repeat(10_000);
    assert!(error("", &[], &[("threads", &long)]).len() < 300, "errors stay short");
}

#[test]
fn a_variable_that_is_not_unicode_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let value = OsString::from_vec(vec![b'a', 0xff]);
    let error = load(None, &[], [("CARILLON_DIR".into(), value)]).unwrap_err().to_string();
    assert!(error.contains("CARILLON_DIR: expected Unicode text"), "{error}");
}

#[test]
fn non_loopback_is_refused_unless_insecure() {
    for open in ["0.0.0.0:7480", "[::]:7480", "192.168.1.5:7480"] {
        let error = error("", &[], &[("http", open)]);
        assert!(error.contains("--insecure") && error.contains("127.0.0.1:7480"), "{error}");
        assert!(from("", &[], &[("http", open), ("insecure", "true")]).is_ok());
    }
    for closed in ["127.9.9.9:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1", "off"] {
        assert!(from("", &[], &[("http", closed)]).is_ok(), "{closed}");
    }
}

/// Flags of a node with peers, and more.
fn with_peers(more: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let flags = [("peer", "127.0.0.1:7600"), ("peer-secret-file", "s")];
    from("", &[], &[&flags, more].concat())
}

#[test]
fn config_with_peers_names_missing_settings() {
    let alone = error("", &[], &[("join", "10.0.0.1:7600")]);
    assert!(alone.contains("peer is off") && alone.contains("--peer 127.0.0.1:7600"), "{alone}");
    let alone = error("", &[], &[("replicas", "3")]);
    assert!(alone.contains("needs other nodes"), "{alone}");
    let bare = error("", &[], &[("peer", "127.0.0.1:7600")]);
    assert!(bare.contains("/dev/urandom") && bare.contains("--peer-secret-file"), "{bare}");
    let even = with_peers(&[("replicas", "4")]).unwrap_err().to_string();
    assert!(even.contains("survives no more failures than one fewer"), "{even}");
    assert_eq!(with_peers(&[]).unwrap().replicas_count(), 3);
    assert_eq!(with_peers(&[("replicas", "7")]).unwrap().replicas_count(), 7);
    assert_eq!(Config::default().replicas_count(), 1);
}

#[test]
fn a_peer_listener_is_open_only_if_told_so_and_says_where_it_is() {
    let open = [("peer", "0.0.0.0:7600")];
    let error = with_peers(&open).unwrap_err().to_string();
    assert!(error.contains("not encrypted") && error.contains("--insecure"), "{error}");
    let open = [open[0], ("insecure", "true")];
    let error = with_peers(&open).unwrap_err().to_string();
    assert!(error.contains("--advertise 10.0.0.1"), "{error}");
    let config = with_peers(&[open[0], open[1], ("advertise", "db1")]).unwrap();
    let advertised = |config: &Config| config.advertised(config.peer.address().unwrap()).unwrap();
    assert_eq!(advertised(&config), ("db1".into(), "db1:7600".into()));
    let config = with_peers(&[("peer", "[::1]:7600")]).unwrap();
    assert_eq!(advertised(&config), ("::1".into(), "[::1]:7600".into()));
    let config = with_peers(&[("advertise", "db1:7")]).unwrap();
    assert_eq!(advertised(&config), ("db1".into(), "db1:7".into()));
    let same = with_peers(&[("http", "127.0.0.1:7600")]).unwrap_err().to_string();
    assert!(same.starts_with("http and peer both listen on 127.0.0.1:7600"), "{same}");
}

#[test]
fn settings_must_fit_each_other() {
    let same = error("", &[], &[("native", "127.0.0.1:6379")]);
    assert!(same.starts_with("resp and native both listen on 127.0.0.1:6379"), "{same}");
    assert!(from("", &[], &[("native", "127.0.0.1:0"), ("resp", "127.0.0.1:0")]).is_ok());
    let small = error("", &[], &[("input-bytes-max", "1MiB")]);
    assert!(small.starts_with("input_bytes_max = 1048576 is too small"), "{small}");
}

#[test]
fn files_are_found_and_missing_ones_are_errors() {
    let dir = std::env::temp_dir().join(format!("carillon-config-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("carillon.toml");
    fs::write(&path, "name = \"from a file\"\n").unwrap();
    let variable = (FILE_VARIABLE.into(), path.clone().into_os_string());
    assert_eq!(load(None, &[], [variable.clone()]).unwrap().name, "from a file");
    let missing = dir.join("missing.toml");
    let error = load(Some(missing.clone()), &[], [variable]).unwrap_err().to_string();
    assert!(error.contains("missing.toml"), "{error}");
    fs::write(&missing, vec![b'#'; 2 << 20]).unwrap();
    let error = load(Some(missing), &[], []).unwrap_err();
    assert!(matches!(error, ConfigError::TooLong { .. }), "{error}");
    fs::remove_dir_all(&dir).unwrap();
}

/// Text that is often nearly a configuration.
fn nearly_toml() -> impl Strategy<Value = String> {
    let name = proptest::sample::select(SETTINGS).prop_map(|setting| setting.name.to_owned());
    let name = prop_oneof![4 => name, 1 => "[a-z_.\\[\\]\"]{0,12}"];
    let value = prop_oneof![
        "[0-9]{0,25}",
        "\"[0-9]{0,20}[ ]?[kmgtKMGT]?i?[bB%]?\"",
        "\"[^\"]{0,20}\"",
        "[\\[{]{0,40}",
        Just("true".to_owned()),
        Just("1979-05-27T07:32:00Z".to_owned()),
        any::<String>(),
    ];
    let line = (name, value).prop_map(|(name, value)| format!("{name} = {value}\n"));
    proptest::collection::vec(line, 0..5).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn garbage_is_refused_in_words_and_what_is_taken_is_consistent(text in nearly_toml()) {
        match from(&text, &[], &[]) {
            Ok(config) => {
                config.check().unwrap();
                prop_assert!(config.segment_bytes >= 1 << 20 && config.interval_ms <= 60_000);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_value_of_any_setting_is_taken_or_refused(
        setting in proptest::sample::select(SETTINGS),
        value in prop_oneof![
            any::<String>(),
            "[0-9]{1,22} ?[a-zA-Z%]{0,4}",
            "[0-9.:\\[\\]a-f]{0,30}",
        ],
    ) {
        let mut config = Config::default();
        let taken = (setting.set)(&mut config, &value);
        prop_assert!(taken.is_ok() || config == Config::default());
    }
}

#[test]
fn the_corpus_is_read_without_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
    let (mut good, mut bad) = (0, 0);
    for file in fs::read_dir(corpus).unwrap() {
        let path = file.unwrap().path();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        match from(&text, &[], &[]) {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    assert!(good >= 3 && bad >= 5, "{good} good and {bad} bad files");
}

#[test]
fn an_advertised_port_needs_a_listener() {
    let at = |flags: &[(&str, &str)]| from("", &[], flags);
    assert_eq!(at(&[]).unwrap().resp_port_advertised(), Some(6379));
    let mapped = at(&[("resp-advertise-port", "7001")]).unwrap();
    assert_eq!(mapped.resp_port_advertised(), Some(7001));
    let refused = at(&[("resp-advertise-port", "7001"), ("resp", "off")]).unwrap_err();
    assert!(refused.to_string().contains("resp is off"), "{refused}");
    assert!(at(&[("resp-advertise-port", "65536")]).is_err());
    let refused = at(&[("resp-replica-advertise-port", "7001")]).unwrap_err();
    assert!(refused.to_string().contains("resp_replica is off"), "{refused}");
}

#[test]
fn replicas_for_clients_need_mode_cluster_and_its_listener() {
    let at = |flags: &[(&str, &str)]| {
        from("", &[], &[&[("resp-replica", "127.0.0.1:6479")], flags].concat())
    };
    let config = at(&[("resp-mode", "cluster")]).unwrap();
    assert_eq!(config.resp_replica_port_advertised(), Some(6479));
    for flags in [&[][..], &[("resp-mode", "cluster"), ("resp", "off")]] {
        let refused = at(flags).unwrap_err();
        assert!(refused.to_string().contains("resp_mode = cluster, and resp on"), "{refused}");
    }
}
