package plugin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	selection "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/plugin/apiservices"
	"pintle.dev/pintle/kernel/plugin/events"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/roles"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// publisher writes the API's view of the plugins. Nothing is written that is
// there already.
type publisher struct {
	plugin *rest.RESTClient
	roles  *roles.Writer
	events *events.Teller
	served *apiservices.Writer
}

func newPublisher(config *rest.Config, servesGroup func(string) bool) (*publisher, error) {
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
	services, err := apiregistration.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for APIServices of plugins: %w", err)
	}
	return &publisher{plugin: plugin, served: apiservices.New(services, servesGroup), roles: roles.New(client), events: events.New(client.CoreV1(), clock.RealClock{})}, nil
}

const (
	managedLabel  = "app.kubernetes.io/managed-by"
	managedByHost = "pintle-plugin-host"
)

// writeFor bounds one write to the API.
const writeFor = 10 * time.Second

// writePlugins brings the Plugin objects to what runs. Objects that the host made
// for plugins that are gone are deleted. The specs of a bundle's plugins are written
// before their statuses: who saw in a status that a change is in force finds no former
// spec beside it, in which a patch would change nothing.
func (h *Host) writePlugins(ctx context.Context, api *publisher) error {
	p := h.present()
	var faults []error
	for _, u := range p.units {
		var made []string // plugins whose objects are there
		for i := range u.bundle.Manifest.Plugins {
			e := &u.bundle.Manifest.Plugins[i]
			if slices.Contains(p.cfg.Silent, e.Kind) {
				continue
			}
			if err := h.writeObject(ctx, api, p, e.Name); err != nil {
				faults = append(faults, fmt.Errorf("plugin %s: %w", e.Name, err))
				continue
			}
			made = append(made, e.Name)
		}
		for _, name := range made {
			updated, err := h.writePluginStatus(ctx, api, p, name)
			if err != nil {
				faults = append(faults, fmt.Errorf("plugin %s: %w", name, err))
			}
			if updated {
				h.pause(ctx)
			}
		}
	}
	return errors.Join(append(faults, h.writeBroken(ctx, api), h.deletePlugins(ctx, api))...)
}

// pause keeps the updates of a round, of which there may be dozens, from coming all at once: the pods that a kernel finds
// at its start are more urgent. It is none when somebody waits for an answer.
func (h *Host) pause(ctx context.Context) {
	if len(h.objects.told) > 0 || len(h.poke) > 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(updatePause):
	}
}

func (h *Host) deletePlugins(ctx context.Context, api *publisher) error {
	h.objects.mu.Lock()
	defer h.objects.mu.Unlock()
	p := h.present()
	for name, t := range h.objects.seen {
		old := t.known
		if old == nil || t.settled != old || p.specs[name] != nil || asksForReview(old) || p.shows(name, old) || old.Labels[managedLabel] != managedByHost ||
			slices.Contains(p.cfg.Silent, string(old.Spec.Kind)) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, writeFor)
		err := api.plugin.Delete().Resource("plugins").Name(name).Do(ctx).Error()
		cancel()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("plugin %s: delete: %w", name, err)
		}
		delete(h.objects.seen, name)
	}
	return nil
}

// writeObject makes the object of a plugin, or writes its spec, unless it says what the
// host has not acted upon yet. A spec that is not in force stays as somebody wrote it.
func (h *Host) writeObject(ctx context.Context, api *publisher, p *plan, name string) error {
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	h.objects.mu.Lock()
	defer h.objects.mu.Unlock()
	u, e := p.holds(name)
	if p != h.present() {
		return nil // the next round, which was asked for, writes it
	}
	now := p.object(u, e)
	t := h.objects.seen[name]
	if t == nil {
		made := &v1alpha1.Plugin{}
		err := api.plugin.Post().Resource("plugins").Body(now).Do(ctx).Into(made)
		if apierrors.IsAlreadyExists(err) {
			return nil // the watch brings it
		}
		if err != nil {
			return fmt.Errorf("create: %w", err)
		}
		h.objects.seen[name] = &tracked{known: made, settled: made}
		return nil
	}
	// The deletion of one that is not known is not acted upon yet.
	if o := t.known; o == nil || o != t.settled || t.refusal != nil || p.foreign(o) && !p.replaces(o) {
		return nil
	}
	return h.lost(t, h.writeSpec(ctx, api, t, now))
}

// writePluginStatus writes the status of a plugin whose object there is. updated: it is
// another now.
func (h *Host) writePluginStatus(ctx context.Context, api *publisher, p *plan, name string) (updated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	h.objects.mu.Lock()
	defer h.objects.mu.Unlock()
	t := h.objects.seen[name]
	if t == nil || t.known == nil || p != h.present() {
		return false, nil
	}
	u, e := p.holds(name)
	h.mu.Lock()
	previous := h.previous.Of(u.bundle.Manifest.Name, name)
	h.mu.Unlock()
	status := p.object(u, e).Status
	status.Previous = previous
	before := t.known
	err = h.lost(t, h.writeStatus(ctx, api, t, status))
	return err == nil && t.known != before, err
}

// lost finds out that an object is gone, or another, which the watch tells.
func (h *Host) lost(t *tracked, err error) error {
	switch {
	case apierrors.IsConflict(err):
		return nil
	case apierrors.IsNotFound(err):
		t.known = nil
		signal(h.objects.changed)
		return nil
	}
	return err
}

func (h *Host) writeSpec(ctx context.Context, api *publisher, t *tracked, now *v1alpha1.Plugin) error {
	annotation := now.Annotations[v1alpha1.ConfiguredAnnotation]
	if t.saysAlready(&now.Spec) && t.known.Annotations[v1alpha1.ConfiguredAnnotation] == annotation {
		return nil
	}
	next := t.known.DeepCopy()
	next.Spec = now.Spec
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.ConfiguredAnnotation, annotation)
	made := &v1alpha1.Plugin{}
	if err := api.plugin.Put().Resource("plugins").Name(now.Name).Body(next).Do(ctx).Into(made); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	t.known, t.settled = made, made
	return nil
}

func (h *Host) writeStatus(ctx context.Context, api *publisher, t *tracked, status v1alpha1.PluginStatus) error {
	old := t.known
	status.Shadow = lastShadow(old, status.Shadow)
	keepConditions(&status, old.Status.Conditions)
	status.ObservedGeneration = old.Status.ObservedGeneration
	// Times are stored in whole seconds.
	status.LastTransition = &metav1.Time{Time: status.LastTransition.Truncate(time.Second)}
	if t.settled == old {
		status.ObservedGeneration = old.Generation
		setAccepted(&status, t.refusal)
	}
	setReady(&status)
	if sameStatus(old.Status, status) {
		return nil
	}
	next, made := old.DeepCopy(), &v1alpha1.Plugin{}
	next.Status = status
	if err := api.plugin.Put().Resource("plugins").Name(old.Name).SubResource("status").Body(next).Do(ctx).Into(made); err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	if t.settled == old {
		t.settled = made
	}
	t.known = made
	api.events.Tell(ctx, old, made)
	return nil
}

// sameStatus reports whether two statuses say the same. The plugins of a bundle are compared
// apart: with them a round over all statuses would allocate a megabyte.
func sameStatus(a, b v1alpha1.PluginStatus) bool {
	if !slices.Equal(a.Provides, b.Provides) {
		return false
	}
	a.Provides, b.Provides = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// lastShadow is what is said of a candidate: what was said last where nothing is known
// of it now, and nothing where the object asks for none.
func lastShadow(o *v1alpha1.Plugin, now *v1alpha1.PluginShadowStatus) *v1alpha1.PluginShadowStatus {
	if o.Spec.Shadow == nil {
		return nil
	}
	return cmp.Or(now, o.Status.Shadow)
}

// saysAlready reports whether the object has the spec, in the form that the API gives it
// back. The object's own is kept encoded: a round over all objects finds them as they were.
func (t *tracked) saysAlready(spec *v1alpha1.PluginSpec) bool {
	if t.encodedOf != t.known {
		t.encodedOf, t.encoded = t.known, nil
		if data, err := json.Marshal(t.known.Spec); err == nil {
			t.encoded = data
		}
	}
	data, err := json.Marshal(spec)
	if err != nil || t.encoded == nil {
		return false
	}
	return bytes.Equal(data, t.encoded) || equality.Semantic.DeepEqual(decodedJSON(data), decodedJSON(t.encoded))
}

// decodedJSON is what JSON says, however it is written; nil where it is none.
func decodedJSON(data []byte) (out any) {
	if json.Unmarshal(data, &out) != nil {
		return nil
	}
	return out
}

func setReady(s *v1alpha1.PluginStatus) {
	condition := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: string(s.State), Message: s.Message,
		LastTransitionTime: *s.LastTransition, ObservedGeneration: s.ObservedGeneration,
	}
	if s.State.Serves() {
		condition.Status = metav1.ConditionTrue
	}
	s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c metav1.Condition) bool { return c.Type == "Ready" })
	s.Conditions = append(s.Conditions, condition)
}

// unconfined is the condition of a process that runs without walls; nil: all of them are up,
// or it does not run. stateMu is held.
func (u *unit) unconfined() *metav1.Condition {
	if u.state != v1alpha1.PluginStateReady || len(u.without) == 0 {
		return nil
	}
	names := make([]string, len(u.without))
	for i, wall := range u.without {
		names[i] = "Without" + strings.ToUpper(string(wall[:1])) + string(wall[1:])
	}
	return &metav1.Condition{
		Type: v1alpha1.PluginConditionConfined, Status: metav1.ConditionFalse, Reason: strings.Join(names, ","),
		Message: waiver(u.without), LastTransitionTime: metav1.Time{Time: u.since.Truncate(time.Second)},
	}
}

// keepConditions gives a status the object's former conditions, but for what it says of
// walls, which is so now.
func keepConditions(s *v1alpha1.PluginStatus, former []metav1.Condition) {
	now := meta.FindStatusCondition(s.Conditions, v1alpha1.PluginConditionConfined)
	s.Conditions = slices.Clone(former)
	if now == nil {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.PluginConditionConfined)
		return
	}
	meta.SetStatusCondition(&s.Conditions, *now)
}

// setAccepted says whether the spec is in force.
func setAccepted(s *v1alpha1.PluginStatus, r *refusal) {
	c := metav1.Condition{Type: v1alpha1.PluginConditionAccepted, Status: metav1.ConditionTrue, Reason: reasonAccepted, ObservedGeneration: s.ObservedGeneration}
	if r != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, r.reason, r.message
	}
	s.Conditions = slices.Clone(s.Conditions)
	meta.SetStatusCondition(&s.Conditions, c)
	// Stored in whole seconds, so that the same is the same.
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.Time{Time: s.Conditions[i].LastTransitionTime.Truncate(time.Second)}
	}
}

// holds returns where a plugin is.
func (p *plan) holds(name string) (*unit, *manifest.Entry) {
	for _, u := range p.units {
		if e := u.entry(name); e != nil {
			return u, e
		}
	}
	return nil, nil
}

// object is the API's view of one plugin.
func (p *plan) object(u *unit, e *manifest.Entry) *v1alpha1.Plugin {
	return &v1alpha1.Plugin{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Plugin"},
		ObjectMeta: metav1.ObjectMeta{
			Name: e.Name, Labels: map[string]string{managedLabel: managedByHost},
			Annotations: map[string]string{v1alpha1.ConfiguredAnnotation: p.annotations[e.Name]},
		},
		Spec: *p.specs[e.Name], Status: p.status(u, e),
	}
}

func (u *unit) status(e *manifest.Entry, enabled bool) v1alpha1.PluginStatus {
	s := u.stats[e.Name]
	u.measure()
	u.tellDropped()
	s.settle()
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
	if e.Kind == sdk.KindPredicate || e.Kind == sdk.KindPriority {
		st.Shadow = u.shadow(u.bundle.Manifest.Name)
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
	if fault := u.serving[e.Name]; fault != "" && st.State == v1alpha1.PluginStateReady {
		st.State, st.Message = v1alpha1.PluginStateBackOff, fault
	}
	if sdk.SchedulingKind(e.Kind) {
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
	} else if c := u.unconfined(); c != nil {
		st.Conditions = []metav1.Condition{*c}
	}
	st.Provides = u.provides()
	return st
}

// provides are the plugins of the unit's bundle, in one list for all of their statuses.
// stateMu is held.
func (u *unit) provides() []v1alpha1.ProvidedPlugin {
	if u.provided == nil {
		for i := range u.bundle.Manifest.Plugins {
			o := &u.bundle.Manifest.Plugins[i]
			u.provided = append(u.provided, v1alpha1.ProvidedPlugin{Name: o.Name, Kind: v1alpha1.PluginKind(o.Kind), Scope: v1alpha1.PluginScope(o.Scope)})
		}
	}
	return slices.Clip(u.provided)
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
	p := h.present()
	var list []v1alpha1.Plugin
	for _, u := range p.units {
		for i := range u.bundle.Manifest.Plugins {
			list = append(list, *p.object(u, &u.bundle.Manifest.Plugins[i]))
		}
	}
	return list
}

// await lists the objects as soon as the API answers.
func (p *publisher) await(ctx context.Context) ([]v1alpha1.Plugin, error) {
	pause := 5 * time.Millisecond
	for {
		list := &v1alpha1.PluginList{}
		asking, cancel := context.WithTimeout(ctx, writeFor)
		err := p.plugin.Get().Resource("plugins").Do(asking).Into(list)
		cancel()
		if err == nil {
			return list.Items, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(pause*5/4, 20*time.Millisecond)
	}
}

// watch keeps a store of the objects current until ctx ends.
func (p *publisher) watch(ctx context.Context, o *objects) {
	lw := cache.NewListWatchFromClient(p.plugin, "plugins", metav1.NamespaceAll, selection.Everything())
	informer := cache.NewSharedIndexInformer(lw, &v1alpha1.Plugin{}, 0, cache.Indexers{})
	store := informer.GetStore()
	synced := informer.HasSynced
	o.mu.Lock()
	o.store = func() []*v1alpha1.Plugin {
		if !synced() {
			return nil
		}
		list := []*v1alpha1.Plugin{}
		for _, item := range store.List() {
			if plugin, ok := item.(*v1alpha1.Plugin); ok {
				list = append(list, plugin)
			}
		}
		return list
	}
	o.mu.Unlock()
	tell := func(any) { signal(o.changed) }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(_, now any) { tell(now) },
	}); err != nil {
		return
	}
	informer.RunWithContext(ctx)
}
