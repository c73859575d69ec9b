# Messages of cargo in, and out comes what nextest needs to know of test executables ("binaries metadata" of its version in hack/wheels),
# as it would ask cargo for: hack/test compiles in other ways than nextest does.
{ "rust-build-meta": { "target-directory": $target, "base-output-directories": [], "non-test-binaries": {}, "linked-paths": [], "target-platforms": [], "target-platform": null },
  "rust-binaries": [ .[] | select(.reason == "compiler-artifact" and .profile.test and .executable)
    | (.package_id | capture("(?<directory>[^/]*)#((?<name>.*)@)?[^@]*$") | .name // .directory) as $package
    | .target.kind[0] as $kind
    | { key: ($package + (if $kind == "test" then "::" + .target.name elif $kind == "bin" or $kind == "example" then "::" + $kind + "/" + .target.name else "" end)),
        value: { "binary-name": .target.name, "package-id": .package_id, kind: $kind, "binary-path": .executable, "build-platform": "target" } }
    | .value["binary-id"] = .key ] | from_entries }
