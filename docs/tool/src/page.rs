//! A generated page, and writing or comparing it.
use std::path::Path;

use crate::{Error, Result};

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Relative to the root of the repository.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// Writes the pages that differ from what is there; returns their paths.
///
/// # Errors
/// [`Error::File`].
pub fn write(root: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let changed = stale(root, pages)?;
    for page in pages.iter().filter(|page| changed.contains(&page.path)) {
        let path = root.join(&page.path);
        let error = |source| Error::File {
            path: page.path.clone(),
            source,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(error)?;
        }
        std::fs::write(&path, &page.text).map_err(error)?;
    }
    Ok(changed)
}

/// Paths of the pages that are absent or differ.
///
/// # Errors
/// [`Error::File`] when a page is there and cannot be read.
pub fn stale(root: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    for page in pages {
        match std::fs::read_to_string(root.join(&page.path)) {
            Ok(text) if text == page.text => {}
            Ok(_) => stale.push(page.path.clone()),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                stale.push(page.path.clone());
            }
            Err(source) => {
                return Err(Error::File {
                    path: page.path.clone(),
                    source,
                });
            }
        }
    }
    Ok(stale)
}
