package candidate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/kernel/shadow"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Candidates sets and ends the candidate of one plugin of a running kernel.
type Candidates struct {
	name    string
	objects dynamic.Interface
	kernel  *inspect.Client
}

// Of dials the kernel that cfg leads to, for the plugin of that name.
func Of(cfg *rest.Config, name string) (*Candidates, error) {
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	kernel, err := inspect.Dial(cfg)
	return &Candidates{name: name, objects: objects, kernel: kernel}, err
}

// Set writes spec.shadow; nil takes it away.
func (c *Candidates) Set(ctx context.Context, spec *v1alpha1.PluginShadowSpec) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"shadow": spec}})
	if err != nil {
		return nil, err
	}
	return c.objects.Resource(v1alpha1.SchemeGroupVersion.WithResource("plugins")).
		Patch(ctx, c.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "pintle"})
}

// report is what the kernel says of the candidate; nil: there is none.
func (c *Candidates) report(ctx context.Context) (*shadow.Report, error) {
	r := &shadow.Report{}
	err := c.kernel.Get(ctx, url.Values{"after": {"0"}}, r, "plugins", c.name, "diff")
	if apierrors.IsConflict(err) {
		return nil, nil
	}
	return r, err
}

// Start sets a candidate and waits until it runs. One that cannot is taken away
// again, so that everything is as it was. tell is called with what it waits for.
func (c *Candidates) Start(ctx context.Context, spec *v1alpha1.PluginShadowSpec, tell func(string)) (*unstructured.Unstructured, error) {
	former, err := c.report(ctx)
	if err != nil {
		return nil, err
	}
	plugins := c.objects.Resource(v1alpha1.SchemeGroupVersion.WithResource("plugins"))
	was, err := plugins.Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	o, err := c.Set(ctx, spec)
	if err != nil {
		return nil, err
	}
	same := was.GetGeneration() == o.GetGeneration()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	state := "the kernel"
	for {
		r, err := c.report(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err != nil || r == nil || former != nil && !same && r.Since.Equal(former.Since): // not yet
		case r.State == v1alpha1.PluginStateFailed:
			_, err := c.Set(context.WithoutCancel(ctx), nil)
			return nil, errors.Join(&operate.RefusedError{Plugin: c.name, Reason: string(r.State), Message: "the candidate cannot run: " + r.Message}, err)
		case r.State == v1alpha1.PluginStatePending || r.State == v1alpha1.PluginStateStarting:
			state = "the candidate, it is " + string(r.State)
		default:
			return o, nil
		}
		tell(state)
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, fmt.Errorf("%w waiting for %s; pintle plugin diff %s says how it is", operate.ErrTimedOut, state, c.name)
			}
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
