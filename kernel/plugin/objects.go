package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// publisher writes the API's view of the plugins. Nothing is written that is
// there already.
type publisher struct {
	plugin *rest.RESTClient
	client kubernetes.Interface
}

func newPublisher(config *rest.Config) (*publisher, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.SchemeGroupVersion)
	typed := rest.CopyConfig(config)
	typed.APIPath = "/apis"
	typed.GroupVersion = &v1alpha1.SchemeGroupVersion
	typed.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	typed.ContentType, typed.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	plugin, err := rest.RESTClientFor(typed)
	if err != nil {
		return nil, fmt.Errorf("client for plugins: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for plugins' permissions: %w", err)
	}
	return &publisher{plugin: plugin, client: client}, nil
}

// permissions turns manifests' rules into RBAC objects: one role and binding
// for each bundle and each plugin that declares rules.
func (p *publisher) permissions(ctx context.Context, units []*unit) error {
	for _, u := range units {
		if u.permitted {
			continue
		}
		rules := map[string][]rbacv1.PolicyRule{}
		var names []string
		add := func(name string, more []Rule) {
			if len(more) == 0 {
				return
			}
			if rules[name] == nil {
				names = append(names, name)
			}
			rules[name] = append(rules[name], PolicyRules(more)...)
		}
		add(u.bundle.Manifest.Name, u.bundle.Manifest.Rules)
		for _, e := range u.bundle.Manifest.Plugins {
			add(e.Name, e.Rules)
		}
		for _, name := range names {
			if err := p.permit(ctx, name, rules[name]); err != nil {
				return fmt.Errorf("permissions of plugin %s: %w", name, err)
			}
		}
		u.permitted = true
	}
	return nil
}

func (p *publisher) permit(ctx context.Context, name string, rules []rbacv1.PolicyRule) error {
	role, binding := rbac.PluginPolicy(name, rules)
	roles, bindings := p.client.RbacV1().ClusterRoles(), p.client.RbacV1().ClusterRoleBindings()
	switch old, err := roles.Get(ctx, role.Name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		if _, err := roles.Create(ctx, role, metav1.CreateOptions{}); err != nil {
			return err
		}
	case err != nil:
		return err
	case !equality.Semantic.DeepEqual(old.Rules, role.Rules):
		old = old.DeepCopy()
		old.Rules = role.Rules
		if _, err := roles.Update(ctx, old, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	switch old, err := bindings.Get(ctx, binding.Name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		_, err := bindings.Create(ctx, binding, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	case !equality.Semantic.DeepEqual(old.Subjects, binding.Subjects):
		old = old.DeepCopy()
		old.Subjects = binding.Subjects
		_, err := bindings.Update(ctx, old, metav1.UpdateOptions{})
		return err
	}
	return nil
}

// plugins brings the Plugin objects to what runs. Objects that the host made
// for plugins that are gone are deleted.
func (p *publisher) plugins(ctx context.Context, cfg *Config, units []*unit) error {
	list := &v1alpha1.PluginList{}
	if err := p.plugin.Get().Resource("plugins").Do(ctx).Into(list); err != nil {
		return fmt.Errorf("list plugins: %w", err)
	}
	have := map[string]*v1alpha1.Plugin{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	for _, u := range units {
		for i := range u.bundle.Manifest.Plugins {
			e := &u.bundle.Manifest.Plugins[i]
			if slices.Contains(cfg.Silent, e.Kind) {
				delete(have, e.Name)
				continue
			}
			if err := p.write(ctx, have[e.Name], u.object(e, cfg)); err != nil {
				return fmt.Errorf("plugin %s: %w", e.Name, err)
			}
			delete(have, e.Name)
		}
	}
	for name, old := range have {
		if old.Labels[managedLabel] != managedByHost || slices.Contains(cfg.Silent, string(old.Spec.Kind)) {
			continue
		}
		if err := p.plugin.Delete().Resource("plugins").Name(name).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("plugin %s: delete: %w", name, err)
		}
	}
	return nil
}

const (
	managedLabel  = "app.kubernetes.io/managed-by"
	managedByHost = "pintle-plugin-host"
)

func (p *publisher) write(ctx context.Context, old, now *v1alpha1.Plugin) error {
	if old == nil {
		old = &v1alpha1.Plugin{}
		if err := p.plugin.Post().Resource("plugins").Body(now).Do(ctx).Into(old); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	} else if !equality.Semantic.DeepEqual(specOf(old), specOf(now)) {
		next := old.DeepCopy()
		next.Spec = now.Spec
		old = &v1alpha1.Plugin{}
		if err := p.plugin.Put().Resource("plugins").Name(now.Name).Body(next).Do(ctx).Into(old); err != nil {
			return fmt.Errorf("update: %w", err)
		}
	}
	status := now.Status
	status.ObservedGeneration = old.Generation
	// Times are stored in whole seconds.
	status.LastTransition = &metav1.Time{Time: status.LastTransition.Truncate(time.Second)}
	status.Conditions = old.Status.Conditions
	setReady(&status)
	if equality.Semantic.DeepEqual(old.Status, status) {
		return nil
	}
	next := old.DeepCopy()
	next.Status = status
	if err := p.plugin.Put().Resource("plugins").Name(now.Name).SubResource("status").Body(next).Do(ctx).Error(); err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	return nil
}

// specOf is a spec in the form that the API gives it back.
func specOf(p *v1alpha1.Plugin) any {
	var out any
	if data, err := json.Marshal(p.Spec); err == nil && json.Unmarshal(data, &out) == nil {
		return out
	}
	return nil
}

func setReady(s *v1alpha1.PluginStatus) {
	condition := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: string(s.State), Message: s.Message,
		LastTransitionTime: *s.LastTransition, ObservedGeneration: s.ObservedGeneration,
	}
	if s.State == v1alpha1.PluginStateReady {
		condition.Status = metav1.ConditionTrue
	}
	s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c metav1.Condition) bool { return c.Type == "Ready" })
	s.Conditions = append(s.Conditions, condition)
}

// object is the API's view of one plugin of a unit.
func (u *unit) object(e *Entry, cfg *Config) *v1alpha1.Plugin {
	enabled := u.enabled(e, cfg)
	o := &v1alpha1.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Plugin"},
		ObjectMeta: metav1.ObjectMeta{Name: e.Name, Labels: map[string]string{managedLabel: managedByHost}},
		Spec: v1alpha1.PluginSpec{
			Bundle: u.bundle.Manifest.Name, Kind: v1alpha1.PluginKind(e.Kind), Transport: v1alpha1.PluginTransport(u.transport),
			Version: u.bundle.Manifest.Version, Digest: u.digest, Enabled: &enabled,
		},
	}
	if e.Kind == sdk.KindController {
		o.Spec.Permissions = PolicyRules(e.Rules)
	}
	if e.Kind == sdk.KindPriority {
		o.Spec.Weight = weightOf(e.Name, cfg)
	}
	if e.Kind == sdk.KindPredicate || e.Kind == sdk.KindPriority {
		o.Spec.OnFailure = v1alpha1.PluginFailurePolicy(OnFailureRefuse)
		if u.ignores(e) {
			o.Spec.OnFailure = v1alpha1.PluginFailurePolicy(OnFailureIgnore)
		}
	}
	o.Status = u.status(e, enabled)
	return o
}

// weightOf is a priority's factor in the first profile that uses it, or nil.
func weightOf(name string, cfg *Config) *int64 {
	for _, p := range cfg.Profiles {
		for _, w := range p.Priorities {
			if w.Name == name {
				return &w.Weight
			}
		}
	}
	return nil
}

// enabled reports whether the configuration asks for a plugin. Runtimes and
// proxies are chosen by the node agent, so a loaded one is enabled.
func (u *unit) enabled(e *Entry, cfg *Config) bool {
	switch e.Kind {
	case sdk.KindController:
		return slices.Contains(cfg.Controllers, e.Name)
	case sdk.KindPredicate:
		return slices.ContainsFunc(cfg.Profiles, func(p Profile) bool { return slices.Contains(p.Predicates, e.Name) })
	case sdk.KindPriority:
		return slices.ContainsFunc(cfg.Profiles, func(p Profile) bool {
			return slices.ContainsFunc(p.Priorities, func(w WeightedPriority) bool { return w.Name == e.Name })
		})
	}
	return true
}

func (u *unit) status(e *Entry, enabled bool) v1alpha1.PluginStatus {
	s := u.stats[e.Name]
	u.measure()
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	st := v1alpha1.PluginStatus{
		State: u.state, Message: u.message, LastTransition: &metav1.Time{Time: u.since},
		Bundle: u.bundle.Manifest.Name, Transport: v1alpha1.PluginTransport(u.transport),
		Version: u.bundle.Manifest.Version, Digest: u.digest, PID: int32(u.pid), Restarts: u.restarts,
		Calls: s.calls.Load(), Failures: s.failures.Load(),
	}
	if p99 := s.p99(); p99 > 0 {
		st.P99 = threeDigits(p99).String()
	}
	if failure := s.failure(); failure != "" && st.Message == "" {
		st.Message = "last failure: " + failure
	}
	for _, c := range u.controllers {
		if c.Name == e.Name && st.State == v1alpha1.PluginStateReady {
			st.Restarts += int32(c.Restarts)
			if !c.Running {
				st.State, st.Message = v1alpha1.PluginStateBackOff, c.Message
			} else if st.Message == "" {
				st.Message = c.Message
			}
		}
	}
	if asked := e.Kind != sdk.KindController && e.Kind != sdk.KindRuntime && e.Kind != sdk.KindProxy; asked {
		var why string
		if st.Circuit, why = s.circuit.report(time.Now()); why != "" && st.State == v1alpha1.PluginStateReady {
			st.Message = why
			if st.Circuit == v1alpha1.PluginCircuitOpen {
				st.State = v1alpha1.PluginStateBackOff
			}
		}
	}
	if d, ok := u.denial(e.Name); ok {
		st.Message = strings.TrimPrefix(st.Message+"; "+d.String(), "; ")
	}
	if u.memory > 0 {
		st.Memory = resource.NewQuantity(u.memory, resource.BinarySI)
	}
	if !enabled {
		st.State, st.Message = v1alpha1.PluginStateDisabled, ""
	}
	for i := range u.bundle.Manifest.Plugins {
		o := &u.bundle.Manifest.Plugins[i]
		st.Provides = append(st.Provides, v1alpha1.ProvidedPlugin{Name: o.Name, Kind: v1alpha1.PluginKind(o.Kind), Scope: v1alpha1.PluginScope(o.Scope)})
	}
	return st
}

// threeDigits rounds to what a p99 can be trusted with.
func threeDigits(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// Plugins is what every loaded plugin is and does, without the API.
func (h *Host) Plugins() []v1alpha1.Plugin {
	h.mu.Lock()
	cfg, units := h.cfg, slices.Clone(h.units)
	h.mu.Unlock()
	var list []v1alpha1.Plugin
	for _, u := range units {
		for i := range u.bundle.Manifest.Plugins {
			list = append(list, *u.object(&u.bundle.Manifest.Plugins[i], &cfg))
		}
	}
	return list
}
