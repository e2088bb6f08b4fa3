//! The list of the suite's tests, as a macro that generates them.

/// Generates a module with one `#[test]` for each function of the suite, over one fixture.
macro_rules! engine_suite {
    ($module:ident, $fixture:ty) => {
        mod $module {
            use super::*;

            crate::engine_suite::engine_suite! { @tests $fixture;
                g08_publications_of_a_topic_reach_the_sink_in_order_each_once
                g08_a_batch_is_published_in_order_with_ascending_positions
                g08_every_kind_of_payload_arrives_as_it_was_published
                g08_whatever_a_filter_matches_reaches_the_sink
                g08_a_position_is_after_all_that_were_acknowledged_before
                g08_a_publication_whose_future_is_dropped_is_published
                g08_a_sink_may_call_the_engine
                g08_a_history_is_read_page_by_page
                g08_a_history_with_wildcards_has_the_order_of_positions
                g08_a_history_keeps_the_newest_within_its_limits_and_tells_the_gap
                g08_a_position_of_another_epoch_is_a_gap
                g08_an_acknowledged_publication_is_in_the_history
                g08_a_resumed_subscription_misses_nothing_and_repeats_nothing
                g08_topics_are_told_with_their_numbers
                g08_presence_is_noted_and_told
                g08_presence_is_limited_by_the_question
                g08_closing_hands_on_what_was_acknowledged
                g08_a_closed_engine_is_unavailable_and_lets_its_sink_go
                g08_many_threads_at_once_keep_order_history_and_presence
            }
        }
    };
    (@tests $fixture:ty; $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                if <$fixture as crate::engine_suite::EngineFixture>::is_installed() {
                    crate::engine_suite::$test::<$fixture>();
                }
            }
        )*
    };
}

pub(crate) use engine_suite;

#[test]
fn every_test_of_the_suite_is_listed_once() {
    let listing = include_str!("test_list.rs");
    let files = [
        include_str!("ending.rs"),
        include_str!("history.rs"),
        include_str!("order.rs"),
        include_str!("presence.rs"),
    ];
    let names = files.iter().flat_map(|file| file.lines()).filter_map(|line| {
        line.strip_prefix("pub(crate) fn g08_")?.split_once("<F").map(|(name, _)| name)
    });
    for name in names {
        let name = format!("g08_{name}");
        assert_eq!(listing.lines().filter(|line| line.trim() == name).count(), 1, "{name}");
    }
}
