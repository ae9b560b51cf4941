package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// RefusedError says that the plugin host did not put a change in force: it
// refused the write, or could not start what the object asks for.
type RefusedError struct {
	Plugin, Reason, Message string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("plugin %s: refused: %s", e.Plugin, e.Message)
}

// ErrTimedOut is wrapped when the host did not answer, or the plugin did not get
// where it was to, in time.
var ErrTimedOut = errors.New("timed out")

// Client reads and writes Plugin objects.
type Client struct{ rest *rest.RESTClient }

// New makes a client of a cluster; it talks to nobody yet.
func New(cfg *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(cfg)
	c.APIPath, c.GroupVersion = "/apis", &v1alpha1.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.QPS = -1 // pollEvery is slow enough; the limit of five a second is what a wait would last
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client for plugins: %w", err)
	}
	return &Client{client}, nil
}

// List returns all plugins.
func (c *Client) List(ctx context.Context) (*v1alpha1.PluginList, error) {
	list := &v1alpha1.PluginList{}
	if err := c.rest.Get().Resource("plugins").Do(ctx).Into(list); err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PluginList"}
	for i := range list.Items {
		list.Items[i].TypeMeta = metav1.TypeMeta{APIVersion: list.APIVersion, Kind: "Plugin"}
	}
	return list, nil
}

// Table returns all plugins as the API prints them: what kubectl shows.
func (c *Client) Table(ctx context.Context) (*metav1.Table, error) {
	table := &metav1.Table{}
	err := c.rest.Get().Resource("plugins").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Into(table)
	if err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	return table, nil
}

// Get returns one plugin.
func (c *Client) Get(ctx context.Context, name string) (*v1alpha1.Plugin, error) {
	o := &v1alpha1.Plugin{}
	if err := c.rest.Get().Resource("plugins").Name(name).Do(ctx).Into(o); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Plugin"}
	return o, nil
}

// Find returns a plugin of that name, or the first one of the bundle of that
// name: what is said of a bundle is said by any of its plugins.
func (c *Client) Find(ctx context.Context, name string) (*v1alpha1.Plugin, error) {
	o, err := c.Get(ctx, name)
	if !apierrors.IsNotFound(err) {
		return o, err
	}
	list, listErr := c.List(ctx)
	if listErr != nil {
		return nil, errors.Join(err, listErr)
	}
	if i := slices.IndexFunc(list.Items, func(p v1alpha1.Plugin) bool { return p.Spec.Bundle == name }); i >= 0 {
		return &list.Items[i], nil
	}
	return nil, err
}

// Change writes a changed spec. A write that the plugin host refuses is a
// *RefusedError.
func (c *Client) Change(ctx context.Context, name string, change func(*v1alpha1.Plugin) error) (*v1alpha1.Plugin, error) {
	for {
		o, err := c.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := change(o); err != nil {
			return nil, fmt.Errorf("plugin %s: %w", name, err)
		}
		made := &v1alpha1.Plugin{}
		err = c.rest.Put().Resource("plugins").Name(name).Body(o).Do(ctx).Into(made)
		switch {
		case err == nil:
			return made, nil
		case apierrors.IsConflict(err) && ctx.Err() == nil:
			continue // the host writes it too
		case apierrors.IsInvalid(err):
			return nil, &RefusedError{Plugin: name, Reason: string(metav1.StatusReasonInvalid), Message: causes(err)}
		}
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
}

// causes are what is wrong with an object, by field, without its kind and name.
func causes(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return err.Error()
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		out = append(out, c.Field+": "+c.Message)
	}
	return strings.Join(out, "; ")
}

// pollEvery is how often a plugin is looked at while it is waited for.
const pollEvery = 20 * time.Millisecond

// Await waits until the host has acted upon a written object, and the plugin is
// where that asks for. One that is in force and not there when the time is up is no
// error: its state says how it is. tell is called with what it waits for; may be nil.
func (c *Client) Await(ctx context.Context, written *v1alpha1.Plugin, tell func(string)) (*v1alpha1.Plugin, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := "the plugin host"
	var inForce *v1alpha1.Plugin
	for {
		o, err := c.Get(ctx, written.Name)
		switch {
		case err == nil:
			done, waiting, refused := look(o, written.Generation)
			if refused != nil {
				return o, refused
			}
			if done {
				return o, nil
			}
			if last = waiting; waiting != "the plugin host" {
				inForce = o
			}
		case ctx.Err() != nil:
		default:
			return nil, err
		}
		if tell != nil {
			tell(last)
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				if inForce != nil {
					return inForce, nil
				}
				return nil, fmt.Errorf("plugin %s: %w waiting for %s", written.Name, ErrTimedOut, last)
			}
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// look says how far the host is with a generation of a spec.
func look(o *v1alpha1.Plugin, generation int64) (done bool, waiting string, refused error) {
	accepted := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.PluginConditionAccepted)
	if accepted == nil || accepted.ObservedGeneration < generation || o.Status.ObservedGeneration < generation {
		return false, "the plugin host", nil
	}
	if accepted.Status != metav1.ConditionTrue {
		return false, "", &RefusedError{Plugin: o.Name, Reason: accepted.Reason, Message: accepted.Message}
	}
	want := v1alpha1.PluginStateReady
	if !ptr.Deref(o.Spec.Enabled, true) {
		want = v1alpha1.PluginStateDisabled
	}
	if o.Status.State != want && !(want.Serves() && o.Status.State.Serves()) {
		text := fmt.Sprintf("state %s, it is %s", want, o.Status.State)
		if o.Status.Message != "" {
			text += ": " + o.Status.Message
		}
		return false, text, nil
	}
	return true, "", nil
}
