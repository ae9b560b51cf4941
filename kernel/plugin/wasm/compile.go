package wasm

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"

	"github.com/tetratelabs/wazero/experimental"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
)

// Compile compiles the module of a sealed bundle into a cache, so that starts only map it. A
// bundle without a module is left alone. Nothing of the module is run, but by checks, which
// look at what was compiled.
func Compile(ctx context.Context, dir string, cache *modulecache.Cache, checks ...func(*manifest.Manifest, *Module) error) error {
	m, err := manifest.Read(filepath.Join(dir, manifest.File))
	if err != nil {
		return err
	}
	if m.Artifacts.WASM == nil {
		return nil
	}
	b := &manifest.Bundle{Directory: dir, Manifest: m}
	// Who compiles waits for nothing else.
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	module, err := Load(ctx, b, m.Artifacts.WASM, m.Artifacts.WASM.Digest, cache, DefaultMemoryLimit)
	if err != nil {
		return err
	}
	for _, check := range checks {
		err = errors.Join(err, check(m, module))
	}
	return errors.Join(err, module.Close(ctx))
}
