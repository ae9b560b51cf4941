package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/wasm"
)

// A module that asks for what is not granted is refused by an error.
func TestModuleWithForeignImportIsRefused(t *testing.T) {
	data := []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x02\x09\x01\x03env\x01x\x00\x00")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.wasm"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	a := &manifest.Artifact{Path: "m.wasm", Digest: "sha256:" + hex.EncodeToString(sum[:])}
	_, err := wasm.Load(t.Context(), &manifest.Bundle{Directory: dir, Manifest: &manifest.Manifest{Name: "m"}}, a, a.Digest, nil, 1<<20)
	if err == nil || !strings.Contains(err.Error(), "imports env.x") {
		t.Errorf("error %v, want a refused import", err)
	}
}
