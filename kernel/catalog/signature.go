package catalog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"oras.land/oras-go/v2/registry"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// What cosign writes.
const (
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeBundlePrefix  = "application/vnd.dev.sigstore.bundle"
	noteSignature     = "dev.cosignproject.cosign/signature"
	signatureType     = "cosign container image signature"
	typeInToto        = "application/vnd.in-toto+json"
	predicateSign     = "https://sigstore.dev/cosign/sign/v1"

	// maxSignatures bounds how many are looked at, maxSignatureBytes each.
	maxSignatures     = 32
	maxSignatureBytes = 256 << 10

	// noteExpires is the optional, signed annotation that ends a signature.
	noteExpires = "expires"
)

// Signature is one over an OCI manifest.
type Signature struct {
	// Type is that of Payload: empty for simple signing, or the payload type
	// of an envelope (DSSE).
	Type      string `json:"type,omitempty"`
	Payload   []byte `json:"payload"`   // base64 in JSON
	Signature []byte `json:"signature"` // base64 in JSON
}

// simpleSigning is cosign's payload.
type simpleSigning struct {
	Critical struct {
		Identity struct {
			DockerReference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			DockerManifestDigest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// statement is the in-toto statement that cosign 3 signs.
type statement struct {
	PredicateType string `json:"predicateType"`
	Subject       []struct {
		Digest      map[string]string `json:"digest"`
		Annotations map[string]any    `json:"annotations"`
	} `json:"subject"`
}

// sigstoreBundle is what of cosign 3's file is looked at; the key is known, so
// that no log and no certificate is asked.
type sigstoreBundle struct {
	Envelope *struct {
		Payload     []byte `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			Sig []byte `json:"sig"`
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// Sign signs an OCI manifest as cosign does; reference is the repository, or
// the bundle's name where there is none. A zero expires is never.
func Sign(key *PrivateKey, image []byte, reference string, expires time.Time) (Signature, error) {
	var p simpleSigning
	p.Critical.Identity.DockerReference = reference
	p.Critical.Image.DockerManifestDigest = digestOf(image)
	p.Critical.Type = signatureType
	if !expires.IsZero() {
		p.Optional = map[string]any{noteExpires: expires.UTC().Format(time.RFC3339)}
	}
	payload, err := json.Marshal(p)
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	sig, err := key.sign(payload)
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	return Signature{Payload: payload, Signature: sig}, nil
}

// simpleSignature is the signature in a layer of cosign's signature image.
func simpleSignature(layer ocispec.Descriptor, payload []byte) (Signature, error) {
	sig, err := base64.StdEncoding.DecodeString(layer.Annotations[noteSignature])
	if err != nil {
		return Signature{}, fmt.Errorf("annotation %s: %w", noteSignature, err)
	}
	return Signature{Payload: payload, Signature: sig}, nil
}

// bundleSignatures are those of a sigstore bundle.
func bundleSignatures(data []byte) ([]Signature, error) {
	var b sigstoreBundle
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("sigstore bundle: %w", err)
	}
	if b.Envelope == nil {
		return nil, errors.New("sigstore bundle: it has no envelope")
	}
	var out []Signature
	for _, s := range b.Envelope.Signatures {
		out = append(out, Signature{Type: b.Envelope.PayloadType, Payload: b.Envelope.Payload, Signature: s.Sig})
	}
	return out, nil
}

// signed is what the key signs: the payload, or an envelope's encoding of it.
func (s *Signature) signed() []byte {
	if s.Type == "" {
		return s.Payload
	}
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(s.Type), s.Type, len(s.Payload), s.Payload)
}

// claim is what a payload says: the digest of an OCI manifest, and until when.
func (s *Signature) claim() (manifest string, expires time.Time, err error) {
	var notes map[string]any
	switch s.Type {
	case "":
		var p simpleSigning
		if err := json.Unmarshal(s.Payload, &p); err != nil {
			return "", time.Time{}, fmt.Errorf("payload: %w", err)
		}
		if p.Critical.Type != signatureType {
			return "", time.Time{}, fmt.Errorf("payload is of type %q; want %q", p.Critical.Type, signatureType)
		}
		manifest, notes = p.Critical.Image.DockerManifestDigest, p.Optional
	case typeInToto:
		var st statement
		if err := json.Unmarshal(s.Payload, &st); err != nil {
			return "", time.Time{}, fmt.Errorf("statement: %w", err)
		}
		// The same key may have signed what is no release: an SBOM, say.
		if st.PredicateType != predicateSign || len(st.Subject) != 1 {
			return "", time.Time{}, fmt.Errorf("statement is of type %q about %d subjects; want %s about one", st.PredicateType, len(st.Subject), predicateSign)
		}
		manifest, notes = "sha256:"+st.Subject[0].Digest["sha256"], st.Subject[0].Annotations
	default:
		return "", time.Time{}, fmt.Errorf("envelope of type %q", s.Type)
	}
	if value, ok := notes[noteExpires]; ok {
		text, _ := value.(string)
		if expires, err = time.Parse(time.RFC3339, text); err != nil {
			return "", time.Time{}, fmt.Errorf("annotation %s is %v; want a time such as 2030-01-01T00:00:00Z", noteExpires, value)
		}
	}
	return manifest, expires, nil
}

// How near a signature came; the nearest is told of.
const (
	faultMissing = iota
	faultForeign
	faultUnreadable
	faultOther
	faultNamed
	faultExpired
)

// misnamed says that the bundle is not what was asked for, by its name and version
// and by the repository that was signed, or "". Whoever serves a registry may
// answer with another bundle that has a signature of the same key. A reference in
// the form of a digest was compared already.
func (s *Signature) misnamed(m *manifest.Manifest, reference string) string {
	signed := ""
	if s.Type == "" {
		var p simpleSigning
		if json.Unmarshal(s.Payload, &p) == nil {
			signed = p.Critical.Identity.DockerReference
		}
	}
	if !strings.Contains(signed, "/") && signed != "" && signed != m.Name {
		return fmt.Sprintf("it was signed as %q and says that it is %s", signed, m.Name)
	}
	if reference == "" {
		return ""
	}
	asked, err := registry.ParseReference(reference)
	if err != nil {
		return fmt.Sprintf("%q is no reference", reference)
	}
	repository := path.Base(asked.Repository)
	if repository != m.Name && repository != repositoryName(signed) {
		return fmt.Sprintf("%s was asked for, and it is %s, signed as %q", repository, m.Name, signed)
	}
	tag := strings.TrimPrefix(asked.Reference, "v")
	if _, err := version.ParseSemantic(tag); err == nil && tag != strings.TrimPrefix(m.Version, "v") {
		return fmt.Sprintf("version %s was asked for, and it is %s", tag, m.Version)
	}
	return ""
}

// repositoryName is the last part of a repository, with or without a tag.
func repositoryName(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// Verified is a signature that counts.
type Verified struct {
	Key     string     `json:"key"`               // ID of the key
	Expires *time.Time `json:"expires,omitempty"` // nil: never
}

// verify finds a signature over image by one of the keys.
func verify(m *manifest.Manifest, reference string, image []byte, signatures []Signature, keys []*PublicKey, now time.Time) (*Verified, error) {
	best, text := faultMissing, "it has no signature; ask its author for a signed package (pintle plugin package --sign-key)"
	fault := func(how int, format string, args ...any) {
		if how > best {
			best, text = how, fmt.Sprintf(format, args...)
		}
	}
	if len(keys) == 0 {
		text = "no public key is known to check signatures by; name the author's in plugins.keys or --key"
		signatures = nil
	}
	want := digestOf(image)
	for i := range signatures {
		s := &signatures[i]
		by := signer(s, keys)
		if by == nil {
			fault(faultForeign, "its signature is by none of the %d known keys; add the author's public key to plugins.keys if you trust it", len(keys))
			continue
		}
		got, expires, err := s.claim()
		other := s.misnamed(m, reference)
		switch {
		case err != nil:
			fault(faultUnreadable, "its signature by %s: %v; ask its author to sign it again", by.File, err)
		case got != want:
			fault(faultOther, "its signature by %s is over %s, and this is %s; ask its author for the package that was signed", by.File, got, want)
		case other != "":
			fault(faultNamed, "%s; ask for it by the name and version that were signed", other)
		case !expires.IsZero() && !now.Before(expires):
			fault(faultExpired, "its signature by %s expired at %s; install a newer package", by.File, expires.UTC().Format(time.RFC3339))
		default:
			v := &Verified{Key: by.ID}
			if !expires.IsZero() {
				v.Expires = &expires
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: %s", words(m), ErrSignature, text)
}

func signer(s *Signature, keys []*PublicKey) *PublicKey {
	data := s.signed()
	for _, k := range keys {
		if k.verifies(data, s.Signature) {
			return k
		}
	}
	return nil
}
