//! No file of the product's code uses a file that uses it: each can be read, and moved, without the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Attribute, Expr, Item, ItemMod, ItemUse, Macro, Token, UseTree, Visibility,
    punctuated::Punctuated,
    visit::{self, Visit},
};

/// The path of a module in its crate, such as `counter_history`, `port`; empty for `lib.rs` and `main.rs`.
type ModulePath = Vec<String>;

/// What a file uses, and the names that it passes on from other files.
#[derive(Default)]
struct SourceFile {
    /// The module of the file; while a module inside it is read, that.
    path: ModulePath,
    /// The number of modules around the current item in the file.
    depth: usize,
    /// Paths from the root of the crate.
    uses: BTreeSet<Vec<String>>,
    /// The modules in files of their own.
    modules: BTreeSet<String>,
    /// The names in the module that `use` declares, with their paths.
    names: BTreeMap<String, Vec<String>>,
}

impl SourceFile {
    fn read(path: ModulePath, text: &str) -> Self {
        let mut file = Self { path, ..Self::default() };
        file.visit_file(&syn::parse_file(text).unwrap());
        file
    }

    /// Returns a path from the root of the crate; `None` if it is of another crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.path, rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let above = self.path.len().checked_sub(ups)?;
                Some([&self.path[..above], &path[ups..]].concat())
            }
            _ => None,
        }
    }

    fn use_tree(&mut self, mut path: Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.use_tree(path, &inner.tree);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|inner| self.use_tree(path.clone(), inner));
            }
            UseTree::Name(name) => self.used_name(path, &name.ident.to_string(), &name.ident.to_string()),
            UseTree::Rename(name) => self.used_name(path, &name.ident.to_string(), &name.rename.to_string()),
            _ => drop(self.absolute(&path).map(|path| self.uses.insert(path))),
        }
    }

    fn used_name(&mut self, mut path: Vec<String>, name: &str, alias: &str) {
        if name != "self" {
            path.push(name.to_owned());
        }
        // `use port::Port` in the parent of `port` has no prefix.
        let of_child = || Some([&self.path, &path[..]].concat());
        if let Some(path) = self.absolute(&path).or_else(of_child) {
            if self.depth == 0 {
                self.names.insert(alias.to_owned(), path.clone());
            }
            self.uses.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for SourceFile {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => &[],
        };
        let is_test = |attribute: &Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        };
        if !attributes.iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_none() {
            self.modules.insert(item.ident.to_string());
        }
        self.path.push(item.ident.to_string());
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
        self.path.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.use_tree(Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        // `port::read` in the parent of `port` has no prefix.
        let of_child = || (parts.len() > 1).then(|| [&self.path, &parts[..]].concat());
        self.uses.extend(self.absolute(&parts).or_else(of_child));
        visit::visit_path(self, path);
    }

    /// Reads the arguments of macros such as `format!`.
    fn visit_macro(&mut self, call: &'ast Macro) {
        if let Ok(arguments) = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            arguments.iter().for_each(|argument| SourceFile::visit_expr(self, argument));
        }
    }

    // `pub(in path)` limits a name; it does not use the module.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// Reads the files of a crate, except those of tests, which no other file declares as modules without a condition.
fn source_files(src: &Path) -> BTreeMap<ModulePath, SourceFile> {
    let mut files = BTreeMap::new();
    let mut directories = vec![src.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let below = path.strip_prefix(src).unwrap().with_extension("");
            let mut module: ModulePath = below.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            let is_root = module == ["lib"] || module == ["main"];
            module.pop_if(|last| is_root || last == "mod");
            files.insert(module.clone(), SourceFile::read(module, &fs::read_to_string(&path).unwrap()));
        }
    }
    let is_module = |path: &ModulePath| {
        let Some((name, parent)) = path.split_last() else { return true };
        files.get(parent).is_some_and(|parent: &SourceFile| parent.modules.contains(name))
    };
    let modules: BTreeSet<_> = files.keys().filter(|path| is_module(path)).cloned().collect();
    files.retain(|path, _| modules.contains(path));
    files
}

/// Returns the file that defines what a path names; `None` if that is another crate. Follows the names that files pass on.
fn definition<'a>(files: &'a BTreeMap<ModulePath, SourceFile>, path: &[String]) -> Option<&'a ModulePath> {
    let mut path = path.to_vec();
    let mut from = None;
    loop {
        let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
        let (module, file) = files.get_key_value(&path[..length])?;
        // A name that leads to the same file, such as `rdma::Device`, begins with the name of another crate.
        if from.replace(module) == Some(module) {
            return None;
        }
        match path.get(length).and_then(|name| file.names.get(name)) {
            Some(target) => path = [target, &path[length + 1..]].concat(),
            None => return Some(module),
        }
    }
}

/// The files that each file uses, with a path that it uses from each.
type Arrows<'a> = BTreeMap<&'a ModulePath, BTreeMap<&'a ModulePath, &'a [String]>>;

/// Returns the arrows between files of a crate that use each other, in a circle; empty if there are none.
fn circle(files: &BTreeMap<ModulePath, SourceFile>) -> Vec<String> {
    let mut rest = Arrows::new();
    for (module, file) in files {
        let used = file.uses.iter().filter_map(|path| Some((definition(files, path)?, path.as_slice())));
        rest.insert(module, used.filter(|(other, _)| *other != module).collect());
    }
    while let Some(leaf) = rest.iter().find(|(_, used)| used.is_empty()).map(|(module, _)| *module) {
        rest.remove(leaf);
        rest.values_mut().for_each(|used| used.retain(|other, _| *other != leaf));
    }
    // What is left leads to a circle: every file uses another one.
    let Some(mut at) = rest.keys().next().copied() else { return Vec::new() };
    let mut walk = Vec::new();
    while !walk.contains(&at) {
        walk.push(at);
        at = rest[at].keys().next().unwrap();
    }
    walk.drain(..walk.iter().position(|module| *module == at).unwrap());
    let name = |module: &ModulePath| if module.is_empty() { "root".into() } else { module.join("::") };
    let next = walk.iter().cycle().skip(1);
    walk.iter()
        .zip(next)
        .map(|(from, to)| format!("{} uses {} of {}", name(from), rest[from][to].join("::"), name(to)))
        .collect()
}

fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut directories = vec![root.join("pkg"), root.join("plugins")];
    while let Some(directory) = directories.pop() {
        if directory.join("Cargo.toml").is_file() {
            found.push(directory);
            continue;
        }
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        directories.extend(entries.filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

#[test]
fn no_file_uses_one_that_uses_it() {
    let crates = crates();
    assert!(crates.len() > 40, "{crates:?}");
    let circles: Vec<_> = crates
        .iter()
        .map(|directory| (directory.display(), circle(&source_files(&directory.join("src")))))
        .filter(|(_, circle)| !circle.is_empty())
        .map(|(directory, circle)| format!("{directory}: {}", circle.join(", ")))
        .collect();
    assert!(circles.is_empty(), "these files use each other:\n{}", circles.join("\n"));
}

#[test]
fn a_circle_is_found_through_names_that_a_file_passes_on() {
    let file = |path: &str, text: &str| {
        let path: ModulePath = path.split_terminator("::").map(str::to_owned).collect();
        (path.clone(), SourceFile::read(path, text))
    };
    let root = || file("", "mod a; mod b; pub use a::A;");
    let a = || file("a", "use crate::b; pub struct A(b::B);");
    let circle_with = |b: &str| circle(&[root(), a(), file("b", b)].into());
    assert!(circle_with("pub struct B;").is_empty());
    let both = |of_b| ["a uses b of b".to_owned(), format!("b uses {of_b} of a")];
    assert_eq!(circle_with("use crate::A; pub struct B(Box<A>);"), both("A"));
    assert_eq!(circle_with("pub fn b() { super::a::a() } pub struct B;"), both("a::a"));
    assert!(circle_with("pub struct B; #[cfg(test)] mod tests { use crate::A; }").is_empty());
    let parent_and_child =
        |parent: &str| circle(&[file("", "mod p;"), file("p", parent), file("p::c", "use super::P;")].into());
    assert_eq!(
        parent_and_child("mod c; use self::c::C; pub struct P(C);"),
        ["p uses p::c::C of p::c", "p::c uses p::P of p"]
    );
    assert!(parent_and_child("mod c; pub struct P;").is_empty());
    for call in ["c::c()", "println!(\"{}\", c::c())"] {
        let parent = format!("mod c; pub struct P; pub fn p() {{ {call} }}");
        assert_eq!(parent_and_child(&parent), ["p uses p::c::c of p::c", "p::c uses p::P of p"], "{call}");
    }
}
