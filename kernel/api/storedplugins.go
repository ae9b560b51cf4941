package api

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// storedPluginsFor bounds what the start waits for the store.
const storedPluginsFor = 5 * time.Second

// StoredPlugins reads the Plugin objects from the store, before the server answers
// anybody: what they ask for holds from the first request on.
func (s *Server) StoredPlugins(ctx context.Context) ([]v1alpha1.Plugin, error) {
	store := s.stores[schema.GroupResource{Group: v1alpha1.GroupName, Resource: "plugins"}]
	ctx, cancel := context.WithTimeout(ctx, storedPluginsFor)
	defer cancel()
	out, err := store.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the stored plugins: %w", err)
	}
	list, ok := out.(*v1alpha1.PluginList)
	if !ok {
		return nil, fmt.Errorf("read the stored plugins: a %T", out)
	}
	return list.Items, nil
}
