package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const rustTarget = "wasm32-unknown-unknown"

const installRust = "with rustup (https://rustup.rs): rustup target add " + rustTarget +
	"; on Debian and Ubuntu: apt-get install cargo rustc libstd-rust-dev-wasm32 lld"

// A rust is a compiler with the WebAssembly target, and its cargo.
type rust struct{ rustc, cargo string }

// findRust tries the compiler in PATH, which is often rustup's, and then the system's.
func findRust(ctx context.Context) (*rust, error) {
	seen := false
	for _, name := range []string{"rustc", "/usr/bin/rustc"} {
		rustc, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		seen = true
		libs, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", rustTarget).Output()
		if err != nil {
			continue
		}
		if core, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(libs)), "libcore-*.rlib")); len(core) == 0 {
			continue
		}
		cargo := filepath.Join(filepath.Dir(rustc), "cargo")
		if _, err := os.Stat(cargo); err != nil {
			return nil, &MissingError{"cargo, beside " + rustc + ",", installRust}
		}
		return &rust{rustc, cargo}, nil
	}
	if seen {
		return nil, &MissingError{"Rust's target " + rustTarget, installRust}
	}
	return nil, &MissingError{"Rust", installRust}
}

// environment returns variables that select the compiler. If Rust came without its own linker, as
// Debian's does, they also select lld and enable bulk memory instructions, which Rust enables by
// default only since version 1.87.
func (r *rust) environment(ctx context.Context) ([]string, error) {
	env := []string{"RUSTC=" + r.rustc}
	libs, err := exec.CommandContext(ctx, r.rustc, "--print", "target-libdir").Output()
	if err != nil {
		return nil, err
	}
	own := filepath.Join(filepath.Dir(strings.TrimSpace(string(libs))), "bin", "rust-lld")
	if info, err := os.Stat(own); err == nil && info.Mode().IsRegular() {
		return env, nil
	}
	linker, err := find("on Debian and Ubuntu: apt-get install lld", linkers...)
	if err != nil {
		return nil, err
	}
	const prefix = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_"
	return append(
		env,
		prefix+"LINKER="+linker,
		prefix+"RUSTFLAGS=-C linker-flavor=wasm-ld -C target-feature=+bulk-memory",
	), nil
}

// buildRust compiles a Rust module with Cargo.
func buildRust(ctx context.Context, p *Project, out string) error {
	r, err := findRust(ctx)
	if err != nil {
		return err
	}
	env, err := r.environment(ctx)
	if err != nil {
		return err
	}
	strip := "debuginfo"
	if p.Strip {
		strip = "symbols"
	}
	env = append(env, "CARGO_PROFILE_RELEASE_STRIP="+strip)
	cache := p.Cache
	if cache == "" {
		cache = filepath.Join(p.Dir, "target")
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return err
	}
	args := []string{"build", "--quiet", "--release", "--target", rustTarget, "--target-dir", cache}
	if err := p.run(ctx, env, r.cargo, args...); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(cache, rustTarget, "release", "*.wasm"))
	if err != nil {
		return err
	}
	switch len(found) {
	case 0:
		return errors.New(`cargo built no module; a middleware is a library: [lib] crate-type = ["cdylib"] in Cargo.toml`)
	case 1:
	default:
		return fmt.Errorf("cargo built %d modules; remove %s if the library was renamed", len(found), cache)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	return os.WriteFile(out, b, 0o644)
}
