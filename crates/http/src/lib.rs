//! HTTP/1.1 on Waterwheel's loops: servers and clients.
#![forbid(unsafe_code)]
