//! The report of Autobahn's suite.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The judgement of one case, in a report's `index.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CaseResult {
    behavior: String,
    behavior_close: String,
    reportfile: String,
}

/// Returns a line for each case that has not passed, and for each of `cases` without a result. A case passes if its messages
/// and its close are both `OK` or `INFORMATIONAL`; `NON-STRICT` is a failure.
///
/// # Errors
/// The text is no report of one agent.
pub(crate) fn failed_cases(index: &str, cases: &[String]) -> Result<Vec<String>, String> {
    let agents: BTreeMap<String, BTreeMap<String, CaseResult>> = serde_json::from_str(index)
        .map_err(|error| format!("the report is unreadable: {error}"))?;
    let [results] = &agents.values().collect::<Vec<_>>()[..] else {
        return Err(format!("the report has {} agents, not one", agents.len()));
    };
    let judged = cases.iter().filter_map(|case| {
        let Some(result) = results.get(case) else { return Some(format!("{case} has no result")) };
        let CaseResult { behavior, behavior_close, reportfile } = result;
        let has_passed = [behavior, behavior_close].iter().all(|behavior| passes(behavior));
        (!has_passed).then(|| format!("{case} {behavior}, close {behavior_close}: {reportfile}"))
    });
    Ok(judged.collect())
}

fn passes(behavior: &str) -> bool {
    matches!(behavior, "OK" | "INFORMATIONAL")
}

#[test]
fn w04_a_report_passes_if_every_case_is_ok_or_informational() {
    let result = |behavior: &str, close: &str| {
        format!(
            r#"{{"behavior": "{behavior}", "behaviorClose": "{close}", "duration": 2, "remoteCloseCode": null, "reportfile": "a.json"}}"#
        )
    };
    let report = |results: &[(&str, String)]| {
        let results: Vec<_> =
            results.iter().map(|(case, result)| format!("\"{case}\": {result}")).collect();
        format!(r#"{{"waterwheel": {{{}}}}}"#, results.join(", "))
    };
    let cases = |cases: &[&str]| cases.iter().map(ToString::to_string).collect::<Vec<_>>();
    let passed = report(&[
        ("1.1.1", result("OK", "OK")),
        ("7.1.6", result("INFORMATIONAL", "INFORMATIONAL")),
    ]);
    assert_eq!(failed_cases(&passed, &cases(&["1.1.1", "7.1.6"])), Ok(vec![]));
    assert_eq!(failed_cases(&passed, &cases(&["1.1.2"])), Ok(vec!["1.1.2 has no result".into()]));
    for (behavior, close) in [
        ("NON-STRICT", "OK"),
        ("FAILED", "OK"),
        ("OK", "FAILED"),
        ("OK", "UNCLEAN"),
        ("OK", "WRONG CODE"),
        ("UNIMPLEMENTED", "OK"),
    ] {
        let failed = report(&[("1.1.1", result(behavior, close))]);
        let expected = format!("1.1.1 {behavior}, close {close}: a.json");
        assert_eq!(failed_cases(&failed, &cases(&["1.1.1"])), Ok(vec![expected]));
    }
    assert!(failed_cases("{}", &[]).is_err(), "no agent");
    assert!(failed_cases("{", &[]).is_err(), "cut off");
}
