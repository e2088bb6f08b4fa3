//! The servers that an engine knows.

use crate::engine::nats::url::NatsServer;

/// Maximum number of servers that servers may tell of.
const MAX_DISCOVERED: usize = 64;

/// The servers to connect to, one after the other: those that were configured, and those that the servers tell of.
#[derive(Debug)]
pub(in crate::engine::nats) struct ServerList {
    configured: Vec<NatsServer>,
    discovered: Vec<NatsServer>,
    next: usize,
}

impl ServerList {
    /// Creates a list that begins somewhere, so that gateways divide themselves among the servers. `random` is any number.
    pub(in crate::engine::nats) fn new(configured: Vec<NatsServer>, random: u32) -> Self {
        let next = random as usize % configured.len().max(1);
        Self { configured, discovered: Vec::new(), next }
    }

    /// Returns the number of servers.
    pub(in crate::engine::nats) fn len(&self) -> usize {
        self.configured.len() + self.discovered.len()
    }

    /// Returns the next server, and whether all were returned since the first.
    pub(in crate::engine::nats) fn next_server(&mut self) -> Option<NatsServer> {
        let all = self.configured.iter().chain(&self.discovered);
        let server = all.cycle().nth(self.next % self.len().max(1)).cloned();
        self.next = (self.next + 1) % self.len().max(1);
        server
    }

    /// Replaces the servers that were told of before.
    pub(in crate::engine::nats) fn discover(&mut self, urls: &[String]) {
        if urls.is_empty() {
            return; // A server that stands alone says nothing of the others.
        }
        let mut discovered = Vec::new();
        for server in urls.iter().filter_map(|url| NatsServer::parse(url)) {
            let is_known = self.configured.contains(&server) || discovered.contains(&server);
            if !is_known && discovered.len() < MAX_DISCOVERED {
                discovered.push(server);
            }
        }
        self.discovered = discovered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_servers_are_tried_in_turn_and_told_ones_are_replaced() {
        let of = |text: &str| NatsServer::parse(text).unwrap();
        let mut list = ServerList::new(vec![of("a"), of("b")], 3);
        let take = |list: &mut ServerList, count| -> Vec<_> {
            (0..count).map(|_| list.next_server().unwrap().host).collect()
        };
        assert_eq!(take(&mut list, 3), ["b", "a", "b"]);
        list.discover(&["a:4222".to_owned(), "c:1".to_owned(), "c:1".to_owned(), "d".to_owned()]);
        assert_eq!(take(&mut list, 5), ["a", "b", "c", "d", "a"]);
        list.discover(&["e:1".to_owned()]);
        assert_eq!(take(&mut list, 3), ["b", "e", "a"]);
        list.discover(&[]);
        assert_eq!(list.len(), 3);
        let many: Vec<_> = (0..1000).map(|n| format!("x{n}")).collect();
        list.discover(&many);
        assert_eq!(list.len(), 2 + MAX_DISCOVERED);
    }
}
