//! Load generators: wrk and ab.

use std::path::PathBuf;

use crate::peer_program::run;
use crate::program::Program;

/// Runs wrk for a second, and checks that each request was answered with 200.
fn run_wrk(args: &[&str], url: &str) -> Option<()> {
    let fixed = ["--threads", "1", "--duration", "1s", "--timeout", "30s"];
    let report = run("wrk", &[&fixed[..], args, &[url]].concat())?.expect_success();
    let requests = report.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: u64 = requests.unwrap_or_else(|| panic!("{report}")).0.parse().unwrap();
    assert!(requests > 0, "{report}");
    assert!(!report.contains("Socket errors"), "{report}");
    assert!(!report.contains("Non-2xx"), "{report}");
    Some(())
}

/// A script of wrk; dropping the value removes it.
struct LuaScript(PathBuf);

impl Drop for LuaScript {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Sends 16 requests at once, with bodies and without, and checks each answer.
const PIPELINE: &str = r#"
init = function(args)
  local requests = {}
  for i = 1, 8 do
    requests[#requests + 1] = wrk.format("GET", "/plaintext")
    requests[#requests + 1] = wrk.format("POST", "/echo", nil, "Hello, World!")
  end
  all = table.concat(requests)
end
request = function() return all end
response = function(status, headers, body)
  if status ~= 200 or body ~= "Hello, World!" then
    print("wrong answer", status, body)
    os.exit(1)
  end
end
"#;

#[test]
fn h15_wrk_sees_no_error() {
    let program = Program::start("json_api", &[&0]);
    let url = |path: &str| format!("http://{}{path}", program.address());
    for connections in ["1", "50"] {
        if run_wrk(&["--connections", connections], &url("/plaintext")).is_none() {
            return;
        }
    }
    run_wrk(&["--connections", "10"], &url("/notes")).unwrap();
    run_wrk(&["--connections", "10", "--header", "Connection: close"], &url("/plaintext")).unwrap();
}

#[test]
fn h04_wrk_pipelines_requests_and_gets_their_answers_in_order() {
    let program = Program::start("json_api", &[&0]);
    let name = format!("waterwheel-wrk-{}.lua", std::process::id());
    let script = LuaScript(std::env::temp_dir().join(name));
    std::fs::write(&script.0, PIPELINE).unwrap();
    let path = script.0.display().to_string();
    let url = format!("http://{}", program.address());
    run_wrk(&["--connections", "10", "--script", &path], &url);
}

#[test]
fn h15_ab_has_no_failed_request() {
    let program = Program::start("json_api", &[&0]);
    let url = format!("http://{}/plaintext", program.address());
    for options in [&["-k"][..], &[]] {
        let fixed = ["-q", "-n", "2000", "-c", "20", "-s", "60"];
        let Some(ended) = run("ab", &[&fixed[..], options, &[&url]].concat()) else { return };
        let report = ended.expect_success();
        let value = |name: &str| {
            let line = report.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        assert_eq!(value("Complete requests:"), "2000", "{report}");
        assert_eq!(value("Failed requests:"), "0", "{report}");
        let kept = if options.is_empty() { "" } else { "2000" };
        assert_eq!(value("Keep-Alive requests:"), kept, "{report}");
        assert!(!report.contains("Non-2xx"), "{report}");
    }
}
