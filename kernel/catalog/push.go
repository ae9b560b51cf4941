package catalog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// Push packs the bundle of a folder into a registry, under a tag. One that
// refuses the types of a plugin gets a plain image of one layer, the tarball.
// With a key it is signed as cosign does.
func Push(ctx context.Context, dir, reference string, o PackOptions) (_ *Packed, err error) {
	kind, name, err := kindOf(reference)
	if err != nil || kind != sourceRegistry {
		return nil, fmt.Errorf("push: %s: want an OCI reference with its registry and tag, such as registry.example.com/plugins/quiet:1.0.0", reference)
	}
	repo, err := repository(name, o.PlainHTTP)
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	if err := repo.Reference.ValidateReferenceAsTag(); err != nil {
		return nil, fmt.Errorf("push %s: it names no tag; add one, such as %s/%s:1.0.0", reference, repo.Reference.Registry, repo.Reference.Repository)
	}
	p, err := openFolder(ctx, dir, o.Progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	plain := false
	err = p.push(ctx, repo, &o)
	if refusedType(err) {
		plain = true
		err = p.pushPlain(ctx, repo, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("push %s: %w", reference, err)
	}
	out := packed(p)
	out.Plain, out.Reference = plain, pinned(name, out.Image)
	if o.Key != nil {
		if err := p.pushSignature(ctx, repo, &o); err != nil {
			return nil, fmt.Errorf("push %s: its signature: %w", reference, err)
		}
		out.SignedBy = o.Key.ID
	}
	return out, nil
}

// refusedType reports whether a registry may take the same in another type.
func refusedType(err error) bool {
	var answer *errcode.ErrorResponse
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// push pushes the files as layers, and the manifest under its tag at last.
func (p *Package) push(ctx context.Context, repo *remote.Repository, o *PackOptions) error {
	image, err := parseImage(p.Image)
	if err != nil {
		return err
	}
	if err := pushBytes(ctx, repo, image.Config, image.Config.Data); err != nil {
		return err
	}
	var total, before int64
	for _, l := range image.Layers {
		total += l.Size
	}
	for _, l := range image.Layers {
		path := filepath.Join(p.Directory, filepath.FromSlash(l.Annotations[ocispec.AnnotationTitle]))
		if err := pushFile(ctx, repo, l, path, func(n int64) { o.tell("push", before+n, total) }); err != nil {
			return err
		}
		before += l.Size
	}
	return p.tag(ctx, repo)
}

func (o *PackOptions) tell(step string, done, total int64) {
	if o.Progress != nil {
		o.Progress(step, done, total)
	}
}

func (p *Package) tag(ctx context.Context, repo *remote.Repository) error {
	return repo.Manifests().PushReference(ctx, descriptor(ocispec.MediaTypeImageManifest, p.Image), bytes.NewReader(p.Image), repo.Reference.Reference)
}

func descriptor(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

// pushPlain pushes an image that every registry takes.
func (p *Package) pushPlain(ctx context.Context, repo *remote.Repository, o *PackOptions) (err error) {
	path := filepath.Join(p.work, "layer.tar.gz")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	inner, outer := digest.SHA256.Digester(), digest.SHA256.Digester()
	z := gzip.NewWriter(io.MultiWriter(f, outer.Hash()))
	err = p.tarball(ctx, io.MultiWriter(z, inner.Hash()), o.Progress)
	if err = errors.Join(err, z.Close(), f.Close()); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: outer.Digest(), Size: info.Size()}
	config, err := json.Marshal(ocispec.Image{
		Platform: ocispec.Platform{Architecture: runtime.GOARCH, OS: runtime.GOOS},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{inner.Digest()}},
	})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(p.Directory, manifest.File))
	if err != nil {
		return err
	}
	configured := descriptor(ocispec.MediaTypeImageConfig, config)
	if p.Image, err = plainImageOf(p.Manifest, text, layer, configured); err != nil {
		return err
	}
	if err := pushBytes(ctx, repo, configured, config); err != nil {
		return err
	}
	if err := pushFile(ctx, repo, layer, path, func(n int64) { o.tell("push", n, layer.Size) }); err != nil {
		return err
	}
	return p.tag(ctx, repo)
}

func pushBytes(ctx context.Context, repo *remote.Repository, d ocispec.Descriptor, data []byte) error {
	d.Data = nil
	if there, err := repo.Blobs().Exists(ctx, d); err != nil || there {
		return err
	}
	return repo.Blobs().Push(ctx, d, bytes.NewReader(data))
}

func pushFile(ctx context.Context, repo *remote.Repository, d ocispec.Descriptor, path string, tell func(n int64)) error {
	if there, err := repo.Blobs().Exists(ctx, d); err != nil || there {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return repo.Blobs().Push(ctx, d, &counted{ctx: ctx, r: f, tell: tell})
}

// pushSignature adds a signature to those that the tag of cosign has.
func (p *Package) pushSignature(ctx context.Context, repo *remote.Repository, o *PackOptions) error {
	s, err := Sign(o.Key, p.Image, repo.Reference.Registry+"/"+repo.Reference.Repository, o.Expires)
	if err != nil {
		return err
	}
	tag := signatureTag(digestOf(p.Image))
	var layers []ocispec.Descriptor
	_, data, err := fetchManifest(ctx, repo, tag)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
	case err != nil:
		return err
	default:
		before, err := parseImage(data)
		if err != nil {
			return err
		}
		layers = before.Layers
	}
	layer := descriptor(typeSimpleSigning, s.Payload)
	layer.Annotations = map[string]string{noteSignature: base64.StdEncoding.EncodeToString(s.Signature)}
	layers = append(layers, layer)
	if len(layers) > maxSignatures {
		return fmt.Errorf("it has %d signatures already; %d are looked at", len(layers)-1, maxSignatures)
	}
	image := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers"}}
	for _, l := range layers {
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, l.Digest)
		image.History = append(image.History, ocispec.History{Created: &time.Time{}})
	}
	config, err := json.Marshal(image)
	if err != nil {
		return err
	}
	configured := descriptor(ocispec.MediaTypeImageConfig, config)
	text, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: configured, Layers: layers,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(pushBytes(ctx, repo, configured, config), pushBytes(ctx, repo, layer, s.Payload)); err != nil {
		return err
	}
	return repo.Manifests().PushReference(ctx, descriptor(ocispec.MediaTypeImageManifest, text), bytes.NewReader(text), tag)
}
