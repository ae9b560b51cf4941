package maintenance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/store"
)

// Decoder turns what is stored into objects: every built-in kind and custom resources.
type Decoder struct {
	// builtin is made when it is first needed: a kernel rarely is asked.
	builtin func() (runtime.Decoder, error)
}

// NewDecoder gives a decoder.
func NewDecoder() *Decoder { return &Decoder{sync.OnceValues(api.NewStoredDecoder)} }

// EncryptedError says that a value is encrypted and the key is not here.
type EncryptedError struct {
	// Provider is what the value says of itself, such as k8s:enc:aescbc:v1:key1.
	Provider string
}

func (e *EncryptedError) Error() string {
	return fmt.Sprintf("it is encrypted (%s): name the EncryptionConfiguration with --encryption-config, or read it through the API, or --raw as it is stored", e.Provider)
}

var (
	protobufPrefix  = []byte("k8s\x00")
	encryptedPrefix = []byte("k8s:enc:")
)

// errRaw says that a value is no object.
var errRaw = errors.New("it is not an object of this API")

// Object decodes a value, with the revision as its resource version. Errors: *EncryptedError for one that is
// encrypted, or what does not fit.
func (d *Decoder) Object(value []byte, revision uint64) (*unstructured.Unstructured, error) {
	var content map[string]any
	switch {
	case bytes.HasPrefix(value, encryptedPrefix):
		provider := value[:min(len(value), 100)]
		if parts := bytes.SplitN(provider, []byte(":"), 6); len(parts) == 6 {
			provider = bytes.Join(parts[:5], []byte(":"))
		}
		return nil, &EncryptedError{Provider: strconv.QuoteToASCII(string(provider))}
	case bytes.HasPrefix(value, protobufPrefix):
		decoder, err := d.builtin()
		if err != nil {
			return nil, err
		}
		obj, gvk, err := decoder.Decode(value, nil, nil)
		if err != nil {
			return nil, err
		}
		if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err != nil {
			return nil, err
		}
		content["apiVersion"], content["kind"] = gvk.ToAPIVersionAndKind()
	default:
		if err := json.Unmarshal(value, &content); err != nil || content == nil {
			return nil, fmt.Errorf("%w: %v", errRaw, err)
		}
		if kind, _ := content["kind"].(string); kind == "" {
			return nil, errRaw
		}
	}
	u := &unstructured.Unstructured{Object: content}
	if revision != 0 {
		u.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	return u, nil
}

// Check says whether a stored value can be decoded. One that is encrypted passes: without its key more cannot be said.
func (d *Decoder) Check(kv store.KV) error {
	var err error
	if bytes.HasPrefix(kv.Value, protobufPrefix) {
		var decoder runtime.Decoder
		if decoder, err = d.builtin(); err == nil {
			_, _, err = decoder.Decode(kv.Value, nil, nil)
		}
	} else {
		_, err = d.Object(kv.Value, 0)
	}
	if errors.As(err, new(*EncryptedError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("it cannot be decoded: %w", err)
	}
	return nil
}

// Change is a version of a key for a person: who wrote it, and what it changed.
type Change struct {
	Revision uint64 `json:"revision"`
	Type     string `json:"type"`
	// By are the field managers whose entries are new or changed, with operation and subresource.
	By []string `json:"by,omitempty"`
	// Time is that of the latest of those entries, as they say it.
	Time string `json:"time,omitempty"`
	// Diff is a unified diff from the version before, in YAML without managed fields and the resource version.
	Diff string `json:"diff,omitempty"`
	// Note is set where there is no diff.
	Note string `json:"note,omitempty"`
}

// Changes turns versions, the latest first, into what each changed, the oldest first. context is the number of lines
// around a change. Of the oldest, when older ones are not kept or were not asked for, the whole is shown.
func (d *Decoder) Changes(versions []Value, context int) []Change {
	out := make([]Change, 0, len(versions))
	var before *unstructured.Unstructured
	for i, v := range slices.Backward(versions) {
		c := Change{Revision: v.Revision, Type: v.Type}
		if v.Oldest {
			c.Type = "kept"
			c.Note = "the oldest version that is kept; what it changed is not known any more"
		} else if i == len(versions)-1 && v.Type != "created" {
			c.Note = "older versions were not asked for"
		}
		if v.Type == "deleted" {
			before = nil
			out = append(out, c)
			continue
		}
		u, err := d.Object(v.Value, v.Revision)
		if err != nil {
			c.Note, before = err.Error(), nil
			out = append(out, c)
			continue
		}
		if before != nil || v.Type == "created" && !v.Oldest {
			c.By, c.Time = writers(before, u)
		}
		old := ""
		if before != nil {
			old = plain(before)
		}
		if before != nil || c.Note == "" {
			c.Diff = unified(old, plain(u), context)
		}
		before = u
		out = append(out, c)
	}
	return out
}

// plain is an object as YAML without what changes with every write.
func plain(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion")
	b, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(b)
}

func unified(a, b string, context int) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(a), B: lines(b), Context: context})
	if err != nil {
		return err.Error()
	}
	return text
}

func lines(s string) []string {
	out := strings.SplitAfter(s, "\n")
	return out[:len(out)-1] // what follows the last line feed
}

// writers are the managers of whom before does not have the same entry.
func writers(before, after *unstructured.Unstructured) (by []string, latest string) {
	known := map[string]bool{}
	entry := func(u *unstructured.Unstructured, visit func(name, text, at string)) {
		if u == nil {
			return
		}
		for _, m := range u.GetManagedFields() {
			text, err := json.Marshal(m)
			if err != nil {
				continue
			}
			name := fmt.Sprintf("%s (%s)", m.Manager, m.Operation)
			if m.Subresource != "" {
				name = fmt.Sprintf("%s (%s of %s)", m.Manager, m.Operation, m.Subresource)
			}
			at := ""
			if m.Time != nil {
				at = m.Time.UTC().Format("2006-01-02T15:04:05Z")
			}
			visit(name, string(text), at)
		}
	}
	entry(before, func(_, text, _ string) { known[text] = true })
	entry(after, func(name, text, at string) {
		if !known[text] {
			by = append(by, name)
			latest = max(latest, at)
		}
	})
	return by, latest
}
