package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	storagevalue "k8s.io/apiserver/pkg/storage/value"

	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/resources/resource"
	pluginv1alpha1 "pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// NewStoredDecoder gives a decoder of built-in objects as they are stored. Custom resources, which are stored as JSON, it does not know.
func NewStoredDecoder() (runtime.Decoder, error) {
	cfg, err := Config{DataDir: "unused", Backend: noBackend{}}.complete()
	if err != nil {
		return nil, err
	}
	kinds, err := servedKinds(resources.Options{ServiceCIDR: cfg.ServiceCIDR, NodePortRange: cfg.NodePortRange}, nil, resource.Access{})
	if err != nil {
		return nil, fmt.Errorf("kinds: %w", err)
	}
	scheme, err := newScheme(kinds, pluginv1alpha1.AddToScheme, addDefaults)
	if err != nil {
		return nil, err
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer(), nil
}

// noBackend stands where only the defaults of a Config are wanted.
type noBackend struct{ Backend }

// StoredOpener decrypts values as they are stored.
type StoredOpener struct {
	file         string
	transformers []storagevalue.Transformer
}

// NewStoredOpener reads an EncryptionConfiguration. Connections to KMS plugins
// that it names end with ctx.
func NewStoredOpener(ctx context.Context, file string) (*StoredOpener, error) {
	loaded, err := encryptionconfig.LoadEncryptionConfig(ctx, file, false, "")
	if err != nil {
		return nil, fmt.Errorf("encryption configuration %s: %w", file, err)
	}
	resources := slices.SortedFunc(maps.Keys(loaded.Transformers), func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	o := &StoredOpener{file: file}
	for _, gr := range resources {
		o.transformers = append(o.transformers, loaded.Transformers[gr])
	}
	return o, nil
}

var encryptedMark = []byte("k8s:enc:")

// Open decrypts the value stored at key; one that is not encrypted is returned
// as it is. The key does not say the resource's group, so that the providers
// of all resources are tried: what opens it to an object is right.
func (o *StoredOpener) Open(ctx context.Context, key string, value []byte) ([]byte, error) {
	if !bytes.HasPrefix(value, encryptedMark) {
		return value, nil
	}
	var errs []error
	for _, t := range o.transformers {
		out, _, err := t.TransformFromStorage(ctx, value, storagevalue.DefaultContext(key))
		switch {
		case err != nil:
			errs = append(errs, err)
		case bytes.HasPrefix(out, []byte("k8s\x00")) || bytes.HasPrefix(out, []byte("{")):
			return out, nil
		}
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("what it gives is no object"))
	}
	return nil, fmt.Errorf("decrypt %s: no provider of %s opens it: %w; name the configuration that it was written with", key, o.file, errs[0])
}
