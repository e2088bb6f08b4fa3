//! Random operations on both ends of a connection, with and without faults: `support/tls_operations`.

use proptest::prelude::*;
use waterwheel_tls::{ClientTls, ServerTls};

use super::attacker::{TLS_1_2, TLS_1_3};
use super::whole_session::configs;
use crate::support::NAME;

#[path = "../../../../../support/tls_operations/mod.rs"]
mod tls_operations;

thread_local! {
    static CONFIGS: [(ServerTls, ClientTls); 2] = [TLS_1_3, TLS_1_2].map(|version| {
        let configs = configs(version);
        (configs.server, configs.client)
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn t08_no_order_of_operations_and_faults_breaks_a_rule(
        options: u8,
        operations in proptest::collection::vec(any::<[u8; 4]>(), 0..40),
    ) {
        let input = [&[options], operations.as_flattened()].concat();
        CONFIGS.with(|configs| tls_operations::run(configs, NAME, &input));
    }
}
