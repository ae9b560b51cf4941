package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"pintle.dev/pintle/kernel/api/resources"
	pluginv1alpha1 "pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// NewStoredDecoder gives a decoder of built-in objects as they are stored. Custom resources, which are stored as JSON, it does not know.
func NewStoredDecoder() (runtime.Decoder, error) {
	cfg, err := Config{DataDir: "unused", Backend: noBackend{}}.complete()
	if err != nil {
		return nil, err
	}
	kinds, err := resources.All(resources.Options{ServiceCIDR: cfg.ServiceCIDR, NodePortRange: cfg.NodePortRange})
	if err != nil {
		return nil, fmt.Errorf("kinds: %w", err)
	}
	scheme, err := newScheme(kinds, pluginv1alpha1.AddToScheme, resources.AddToScheme)
	if err != nil {
		return nil, err
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer(), nil
}

// noBackend stands where only the defaults of a Config are wanted.
type noBackend struct{ Backend }
