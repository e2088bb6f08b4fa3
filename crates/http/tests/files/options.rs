//! Options that are refused, and the traits of what they build.

use waterwheel_http::{Files, InvalidFiles};

use crate::folder::site;

#[test]
fn h08_invalid_options_are_refused_with_their_reason() {
    let folder = site();
    let root = folder.root();
    let missing = Files::new(root.join("missing")).unwrap_err().to_string();
    let reason = "cannot be served: No such file or directory (os error 2)";
    assert!(missing.contains("missing") && missing.ends_with(reason), "{missing}");
    let file = Files::new(root.join("digits.txt")).unwrap_err().to_string();
    assert!(file.ends_with("digits.txt\" cannot be served: it is not a folder"), "{file}");
    let builder = || Files::builder(&root);
    for name in ["", ".", "..", "a/b", "/", "a\0"] {
        let error = builder().index_names(["index.html", name]).build().unwrap_err();
        assert!(matches!(error, InvalidFiles::IndexName { name: found } if found == name));
    }
    for value in ["", " ", "a\r\nb: c", "ä"] {
        let error = builder().cache_control(value).build().unwrap_err();
        assert!(matches!(error, InvalidFiles::CacheControl { .. }), "{value:?}");
    }
    for extension in ["", ".js", "a/b", "seventeen-letters"] {
        let error = builder().media_type(extension, "text/plain").build().unwrap_err();
        assert!(matches!(error, InvalidFiles::Extension { .. }), "{extension:?}");
    }
    for media_type in ["", "text", "text/\n", "text/ä"] {
        let error = builder().media_type("x", media_type).build().unwrap_err();
        assert!(matches!(error, InvalidFiles::MediaType { .. }), "{media_type:?}");
    }
    assert_eq!(format!("{:?}", builder().build().unwrap()), format!("Files({root:?})"));
}

#[test]
fn h08_files_may_be_sent_to_other_threads() {
    fn is_shareable<T: Clone + Send + Sync + 'static>() {}
    is_shareable::<Files>();
}
