package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// repository is one of a registry, with the credentials of docker's
// configuration.
func repository(reference string, plainHTTP bool) (*remote.Repository, error) {
	ref, err := registry.ParseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("%s: not an OCI reference: %w", reference, err)
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("credentials of registries: %w", err)
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = stall
	base.DisableKeepAlives = true // a command asks a few times and ends
	repo, err := remote.NewRepository(ref.Registry + "/" + ref.Repository)
	if err != nil {
		return nil, err
	}
	repo.Reference = ref
	repo.PlainHTTP = plainHTTP || loopback(ref.Host())
	repo.ReferrerListMaxPages = maxSignatures
	repo.MaxMetadataBytes = maxImageBytes
	repo.Client = &auth.Client{
		Client:     &http.Client{Transport: retry.NewTransport(base)},
		Header:     http.Header{"User-Agent": {"pintle"}},
		Cache:      auth.NewCache(),
		Credential: credentials.Credential(store),
	}
	return repo, nil
}

// loopback reports whether a registry is on this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fromRegistry fetches what of a bundle this platform needs.
func (p *Package) fromRegistry(ctx context.Context, s *stage, reference string, o *SourceOptions) error {
	repo, err := repository(reference, o.PlainHTTP)
	if err != nil {
		return err
	}
	ref := repo.Reference
	if ref.Reference == "" {
		return fmt.Errorf("%s names neither tag nor digest; add one, such as %s:1.0.0", reference, reference)
	}
	o.tell("resolve", 0, 0)
	desc, data, err := fetchManifest(ctx, repo, ref.Reference)
	if err != nil {
		return err
	}
	p.Image = data
	p.Source = pinned(reference, desc.Digest.String())
	image, err := parseImage(data)
	if err != nil {
		return err
	}
	if len(image.Layers) == 1 && isTarball(image.Layers[0].MediaType) {
		err = p.fromLayer(ctx, s, repo, image.Layers[0], o)
	} else {
		err = p.fromLayers(ctx, s, repo, image, o)
	}
	if err != nil {
		return err
	}
	// Both forms are signed by what they name.
	p.Image = data
	if d, err := namedBundle(data); err != nil {
		return err
	} else if d != p.Digest {
		return fmt.Errorf("%w: its OCI manifest names %s, its %s has digest %s: %w", ErrPackage, d, manifest.File, p.Digest, ErrDigest)
	}
	o.tell("signatures", 0, 0)
	p.Signatures, p.unread = fetchSignatures(ctx, repo, desc)
	return nil
}

// pinned adds a digest to a reference that has none.
func pinned(reference, digest string) string {
	at, _, _ := strings.Cut(reference, "@")
	return at + "@" + digest
}

func fetchManifest(ctx context.Context, repo *remote.Repository, reference string) (ocispec.Descriptor, []byte, error) {
	desc, rc, err := repo.FetchReference(ctx, reference)
	if err != nil {
		return desc, nil, err
	}
	defer rc.Close()
	if desc.Size > maxImageBytes {
		return desc, nil, refused("its OCI manifest has %d bytes; %d are allowed", desc.Size, maxImageBytes)
	}
	data, err := content.ReadAll(rc, desc)
	return desc, data, err
}

// fromLayers takes a bundle whose files are layers.
func (p *Package) fromLayers(ctx context.Context, s *stage, repo *remote.Repository, image *ocispec.Manifest, o *SourceOptions) error {
	titled := map[string]ocispec.Descriptor{}
	for _, l := range image.Layers {
		title := l.Annotations[ocispec.AnnotationTitle]
		if title == "" {
			continue
		}
		if _, twice := titled[title]; twice {
			return refused("layer %q is there twice", title)
		}
		titled[title] = l
	}
	first, ok := titled[manifest.File]
	if !ok {
		return refused("it has no layer %s; is it a plugin?", manifest.File)
	}
	if first.Size > 1<<20 {
		return refused("%s is larger than %d bytes", manifest.File, 1<<20)
	}
	text, err := fetchSmall(ctx, repo, first, 1<<20)
	if err != nil {
		return err
	}
	if err := p.read(text); err != nil {
		return err
	}
	if _, err := s.add(manifest.File, bytes.NewReader(text), 0o644); err != nil {
		return err
	}
	for _, a := range needed(p.Manifest, "", true) {
		l, ok := titled[a.Path]
		if !ok {
			return refused("its manifest names %s, which is not in it", a.Path)
		}
		if err := p.compare(a, l.Digest.String()); err != nil {
			return err
		}
	}
	list := needed(p.Manifest, manifest.Platform(), o.All)
	var total, before int64
	for _, a := range list {
		if size := titled[a.Path].Size; size < 0 || size > s.limits.bytes-total {
			return refused("it has more than %d bytes", s.limits.bytes)
		}
		total += titled[a.Path].Size
	}
	for _, a := range list {
		l := titled[a.Path]
		err := fetchBlob(ctx, repo, l, func(n int64) { o.tell("download", before+n, total) }, func(r io.Reader) error {
			f, err := s.add(a.Path, r, 0o644)
			if err != nil {
				return damaged(err)
			}
			return p.compare(a, f.digest)
		})
		if err != nil {
			return err
		}
		before += l.Size
	}
	p.files = s.files
	return nil
}

// fromLayer takes a bundle that is the tarball of a plain image.
func (p *Package) fromLayer(ctx context.Context, s *stage, repo *remote.Repository, layer ocispec.Descriptor, o *SourceOptions) error {
	if layer.Size > s.limits.bytes {
		return refused("it has more than %d bytes", s.limits.bytes)
	}
	return fetchBlob(ctx, repo, layer, func(n int64) { o.tell("download", n, layer.Size) }, func(r io.Reader) error {
		verified := content.NewVerifyReader(r, layer)
		if err := p.fromTar(ctx, s, verified); err != nil {
			return err
		}
		return verified.Verify()
	})
}

// fetchBlob hands a layer's bytes to read and ends when none come for long.
func fetchBlob(ctx context.Context, repo *remote.Repository, l ocispec.Descriptor, tell func(n int64), read func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came from the registry for %s", stall)) })
	defer late.Stop()
	rc, err := repo.Blobs().Fetch(ctx, l)
	if err != nil {
		return err
	}
	defer rc.Close()
	err = read(&counted{ctx: ctx, r: rc, tell: func(n int64) {
		late.Reset(stall)
		tell(n)
	}})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// fetchSmall fetches a blob into memory.
func fetchSmall(ctx context.Context, repo *remote.Repository, l ocispec.Descriptor, most int64) (data []byte, err error) {
	if l.Size > most {
		return nil, refused("layer %s has %d bytes; %d are allowed", l.Digest, l.Size, most)
	}
	err = fetchBlob(ctx, repo, l, func(int64) {}, func(r io.Reader) error {
		data, err = content.ReadAll(r, l)
		return damaged(err)
	})
	return data, err
}

// fetchSignatures finds cosign's signatures of a manifest, in both of the
// forms that it has had.
func fetchSignatures(ctx context.Context, repo *remote.Repository, desc ocispec.Descriptor) ([]Signature, error) {
	simple, err := fetchSimple(ctx, repo, desc)
	if err != nil {
		return nil, fmt.Errorf("signatures in tag %s: %w", signatureTag(desc.Digest.String()), err)
	}
	bundles, err := fetchBundles(ctx, repo, desc)
	if err != nil {
		// A registry without referrers may answer anything.
		if len(simple) > 0 {
			return simple, nil
		}
		return nil, fmt.Errorf("signatures among the referrers: %w", err)
	}
	return append(simple, bundles...), nil
}

// signatureTag is the tag at which cosign keeps the signatures of a manifest.
func signatureTag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

func fetchSimple(ctx context.Context, repo *remote.Repository, desc ocispec.Descriptor) ([]Signature, error) {
	_, data, err := fetchManifest(ctx, repo, signatureTag(desc.Digest.String()))
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	image, err := parseImage(data)
	if err != nil {
		return nil, err
	}
	var out []Signature
	for _, l := range image.Layers {
		if l.MediaType != typeSimpleSigning || len(out) == maxSignatures {
			continue
		}
		payload, err := fetchSmall(ctx, repo, l, maxSignatureBytes)
		if err != nil {
			return nil, err
		}
		s, err := simpleSignature(l, payload)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func fetchBundles(ctx context.Context, repo *remote.Repository, desc ocispec.Descriptor) ([]Signature, error) {
	var refs []ocispec.Descriptor
	err := repo.Referrers(ctx, desc, "", func(page []ocispec.Descriptor) error {
		// Not every registry says of what type they are.
		refs = append(refs, page[:min(len(page), maxSignatures-len(refs))]...)
		return nil
	})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return nil, err
	}
	var out []Signature
	for _, r := range refs {
		_, data, err := fetchManifest(ctx, repo, r.Digest.String())
		if err != nil {
			return nil, err
		}
		image, err := parseImage(data)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(image.Layers, func(l ocispec.Descriptor) bool { return strings.HasPrefix(l.MediaType, typeBundlePrefix) })
		if at < 0 {
			continue
		}
		bundle, err := fetchSmall(ctx, repo, image.Layers[at], maxSignatureBytes)
		if err != nil {
			return nil, err
		}
		// Attestations are bundles too, some without an envelope.
		if more, err := bundleSignatures(bundle); err == nil {
			out = append(out, more...)
		}
	}
	return out, nil
}
