package conformance

import (
	"context"
	"path/filepath"

	"pintle.dev/pintle/sdk/artifact"
)

// OpenBuild makes a runner of one build of a bundle, a WASM module or a program. The runner opens it
// as often as it is asked to; end releases what these share.
func OpenBuild(ctx context.Context, path string) (r Runner, end func(context.Context) error, err error) {
	if filepath.Ext(path) != ".wasm" {
		return Runner{Name: "process", Open: func(ctx context.Context) (artifact.Artifact, error) {
			p, err := artifact.OpenProcess(ctx, path, artifact.Options{})
			if err != nil {
				return nil, err
			}
			return p, nil
		}}, func(context.Context) error { return nil }, nil
	}
	m, err := artifact.LoadModule(ctx, path, artifact.Options{})
	if err != nil {
		return r, nil, err
	}
	return Runner{Name: "wasm", Open: m.Open}, m.Close, nil
}
