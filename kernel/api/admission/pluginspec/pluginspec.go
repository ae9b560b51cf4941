package pluginspec

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Host knows what plugins can be.
type Host interface {
	// Admit returns what keeps now from being put in force. old is nil for a new
	// object. Neither is changed. It may start what now asks for, to try it.
	Admit(ctx context.Context, old, now *v1alpha1.Plugin) field.ErrorList
}

// Plugin asks the host about each Plugin object that is written.
type Plugin struct {
	*admission.Handler
	host Host
	// self is the user as whom the host writes, which it need not be asked about.
	self string
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// New returns the plugin. A nil host knows nothing and refuses nothing.
func New(host Host, self string) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), host: host, self: self}
}

// Admit drops a digest that was that of another version: who changes the version
// alone does not mean the former build.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	now, old, ok := p.objects(a)
	if ok && old != nil && now.Spec.Version != old.Spec.Version && now.Spec.Digest == old.Spec.Digest {
		now.Spec.Digest = ""
	}
	return nil
}

// Validate asks the host.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	now, old, ok := p.objects(a)
	if !ok || p.host == nil || a.GetUserInfo() != nil && a.GetUserInfo().GetName() == p.self {
		return nil
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, now.Spec) {
		return nil
	}
	if list := p.host.Admit(ctx, old, now); len(list) > 0 {
		return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("Plugin").GroupKind(), now.Name, list)
	}
	return nil
}

func (p *Plugin) objects(a admission.Attributes) (now, old *v1alpha1.Plugin, ok bool) {
	if a.GetResource().GroupResource() != v1alpha1.Resource("plugins") || a.GetSubresource() != "" {
		return nil, nil, false
	}
	now, ok = a.GetObject().(*v1alpha1.Plugin)
	old, _ = a.GetOldObject().(*v1alpha1.Plugin)
	return now, old, ok
}
