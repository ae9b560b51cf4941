package catalog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// PackOptions say how a bundle is packed.
type PackOptions struct {
	// Key signs it; nil: it is not signed anew, and keeps what it has.
	Key *PrivateKey
	// Expires ends the signature; zero: never.
	Expires time.Time
	// PlainHTTP speaks to the registry without TLS.
	PlainHTTP bool
	Progress  func(step string, done, total int64)
}

// Packed is a package that was made.
type Packed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Digest is the bundle's: that of its manifest.yaml.
	Digest string `json:"digest"`
	// Image is the digest of the OCI manifest, which is what is signed.
	Image     string            `json:"image"`
	Reference string            `json:"reference,omitempty"` // in the registry, with its digest
	File      string            `json:"file,omitempty"`
	Bytes     int64             `json:"bytes"`
	Artifacts map[string]string `json:"artifacts"`
	SignedBy  string            `json:"signedBy,omitempty"`
	// Plain: the registry refused the types of a plugin and has it as an image.
	Plain bool `json:"plain,omitempty"`
}

func packed(p *Package) *Packed {
	out := &Packed{
		Name: p.Manifest.Name, Version: p.Manifest.Version, Digest: p.Digest, Image: digestOf(p.Image),
		Artifacts: versionOf(p.Manifest, p.Digest, "").Artifacts,
	}
	for _, f := range p.files {
		out.Bytes += f.size
	}
	return out
}

// WriteTarball packs the bundle of a folder into one tarball, compressed by
// gzip: the same bytes for the same bundle and signatures.
func WriteTarball(ctx context.Context, dir string, w io.Writer, o PackOptions) (_ *Packed, err error) {
	p, err := openFolder(ctx, dir, o.Progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	out := packed(p)
	if o.Key != nil {
		s, err := Sign(o.Key, p.Image, p.Manifest.Name, o.Expires)
		if err != nil {
			return nil, err
		}
		p.Signatures, out.SignedBy = append(p.Signatures, s), o.Key.ID
	}
	z := gzip.NewWriter(w)
	if err := p.tarball(ctx, z, o.Progress); err != nil {
		return nil, fmt.Errorf("%s: %w", words(p.Manifest), err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", words(p.Manifest), err)
	}
	return out, nil
}

// openFolder opens a folder as a package, with all its builds.
func openFolder(ctx context.Context, dir string, progress func(string, int64, int64)) (*Package, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("plugin package: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("plugin package: %s is no folder; name the folder of a bundle, in which pintle plugin seal was run", dir)
	}
	return Open(ctx, dir, "", SourceOptions{All: true, Progress: progress})
}

// tarball writes the package, the manifest first.
func (p *Package) tarball(ctx context.Context, w io.Writer, progress func(string, int64, int64)) error {
	t := tar.NewWriter(w)
	add := func(name string, mode, size int64, r io.Reader) error {
		// Nothing of who packed it, where and when is in it.
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, Format: tar.FormatUSTAR}
		if len(name) > 100 {
			h.Format = tar.FormatPAX
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.Copy(t, &counted{ctx: ctx, r: r})
		return err
	}
	data, err := os.ReadFile(filepath.Join(p.Directory, manifest.File))
	if err != nil {
		return err
	}
	if err := add(manifest.File, 0o644, int64(len(data)), bytes.NewReader(data)); err != nil {
		return err
	}
	list := needed(p.Manifest, "", true)
	for i, a := range list {
		if progress != nil {
			progress("pack", int64(i), int64(len(list)))
		}
		f, err := os.Open(filepath.Join(p.Directory, filepath.FromSlash(a.Path)))
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if executable(p.Manifest, a.Path) {
			mode = 0o755
		}
		if err := errors.Join(add(a.Path, mode, p.files[a.Path].size, f), f.Close()); err != nil {
			return err
		}
	}
	if len(p.Signatures) > 0 {
		data, err := json.Marshal(signed{Signatures: p.Signatures})
		if err != nil {
			return err
		}
		if err := add(signatureFile, 0o644, int64(len(data)), bytes.NewReader(data)); err != nil {
			return err
		}
	}
	return t.Close()
}
