package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	kernelstorage "pintle.dev/pintle/kernel/api/storage"
)

// Bind assigns a pod to a node as a POST of the binding would, without HTTP.
// The binding names the pod in ObjectMeta (UID and ResourceVersion, where set,
// are preconditions). A pod that is bound, going away or gated gives a
// Conflict with upstream's words, a pod that is not there NotFound.
func (s *Server) Bind(ctx context.Context, b *corev1.Binding) error {
	if s.admit.Reviewed(createsOfBindings) {
		return s.bindAsked(ctx, b)
	}
	if err := s.admit.Ends(podResource.GroupResource(), b.Namespace, b.Name); err != nil {
		return err
	}
	ctx = request.WithNamespace(ctx, b.Namespace)
	_, err := s.binding.Create(ctx, b.Name, b, nil, &metav1.CreateOptions{})
	return err
}

// BindAll is Bind of several pods, which are written together. The errors are in
// the order of the bindings, and so is known: the pods as a Source of this server
// gave them; none need be given. What is not the latest costs reading the pod.
func (s *Server) BindAll(ctx context.Context, bindings []*corev1.Binding, known []*corev1.Pod) []error {
	if !s.admit.Reviewed(createsOfBindings) {
		return s.binding.assignAll(ctx, bindings, known)
	}
	return askedAbout(len(bindings), func(i int) error { return s.bindAsked(ctx, bindings[i]) })
}

// bindingREST is pods/binding: spec.nodeName and the PodScheduled condition
// change in one write.
type bindingREST struct {
	store *genericregistry.Store
	// topology are the labels that pods on a node get; may be nil.
	topology func(node string) map[string]string
	// ends refuses bindings in namespaces that are being deleted.
	ends func(resource schema.GroupResource, namespace, name string) error
}

var (
	_ rest.NamedCreater                   = (*bindingREST)(nil)
	_ rest.SubresourceObjectMetaPreserver = (*bindingREST)(nil)
)

func (r *bindingREST) NamespaceScoped() bool { return true }
func (r *bindingREST) New() runtime.Object   { return &corev1.Binding{} }
func (r *bindingREST) Destroy()              {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps UID and
// ResourceVersion of the request: they are the preconditions.
func (r *bindingREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

func (r *bindingREST) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
	}
	if name != b.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(b); len(errs) != 0 {
		return nil, errs.ToAggregate()
	}
	if createValidation != nil {
		if err := createValidation(ctx, b.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.assign(ctx, b, dryrun.IsDryRun(options.DryRun)); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	return errs
}

func (r *bindingREST) assign(ctx context.Context, b *corev1.Binding, dryRun bool) error {
	return r.replace(ctx, b.Name, preconditions(b), dryRun, func(obj runtime.Object) (runtime.Object, error) { return r.bound(obj, b) })
}

// preconditions of a binding; nil: none.
func preconditions(b *corev1.Binding) *storage.Preconditions {
	if b.UID == "" && b.ResourceVersion == "" {
		return nil
	}
	pre := &storage.Preconditions{}
	if b.UID != "" {
		pre.UID = &b.UID
	}
	if b.ResourceVersion != "" {
		pre.ResourceVersion = &b.ResourceVersion
	}
	return pre
}

// assignAll is assign of several, in one write where the storage can.
func (r *bindingREST) assignAll(ctx context.Context, bindings []*corev1.Binding, known []*corev1.Pod) []error {
	failures := make([]error, len(bindings))
	together, ok := r.store.Storage.Storage.(replacerOfAll)
	if !ok {
		var group sync.WaitGroup
		for i, b := range bindings {
			group.Go(func() {
				if failures[i] = r.ends(podResource.GroupResource(), b.Namespace, b.Name); failures[i] != nil {
					return
				}
				_, failures[i] = r.Create(request.WithNamespace(ctx, b.Namespace), b.Name, b, nil, &metav1.CreateOptions{})
			})
		}
		group.Wait()
		return failures
	}
	list, of := make([]kernelstorage.Replacement, 0, len(bindings)), make([]int, 0, len(bindings))
	namespace, inNamespace := "", request.WithNamespace(ctx, "")
	for i, b := range bindings {
		if errs := validateBinding(b); len(errs) != 0 {
			failures[i] = errs.ToAggregate()
			continue
		}
		if b.Namespace != namespace {
			namespace, inNamespace = b.Namespace, request.WithNamespace(ctx, b.Namespace)
		}
		if failures[i] = r.ends(podResource.GroupResource(), b.Namespace, b.Name); failures[i] != nil {
			continue
		}
		key, err := r.store.KeyFunc(inNamespace, b.Name)
		if err != nil {
			failures[i] = err
			continue
		}
		of = append(of, i)
		replacement := kernelstorage.Replacement{
			Key: key, Preconditions: preconditions(b), Binds: true, Change: func(obj runtime.Object) (runtime.Object, error) { return r.bound(obj, b) },
		}
		if i < len(known) && known[i] != nil && known[i].Name == b.Name && known[i].Namespace == b.Namespace {
			replacement.Known = known[i]
		}
		list = append(list, replacement)
	}
	for k, err := range together.ReplaceAll(ctx, list) {
		failures[of[k]] = replaceError(bindings[of[k]].Name, err)
	}
	return failures
}

// replace writes a pod anew, over the shared object where the storage can.
func (r *bindingREST) replace(ctx context.Context, name string, pre *storage.Preconditions, dryRun bool, change func(runtime.Object) (runtime.Object, error)) error {
	key, err := r.store.KeyFunc(ctx, name)
	if err != nil {
		return err
	}
	if direct, ok := r.store.Storage.Storage.(replacer); ok && !dryRun {
		err = direct.Replace(ctx, key, pre, change)
	} else {
		err = r.store.Storage.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, pre, storage.SimpleUpdate(change), dryRun, nil)
	}
	return replaceError(name, err)
}

// replaceError is an error of the storage as the API says it.
func replaceError(name string, err error) error {
	if err == nil {
		return nil
	}
	pods := corev1.Resource("pods")
	err = storeerr.InterpretGetError(err, pods, name)
	err = storeerr.InterpretUpdateError(err, pods, name)
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), name, err)
	}
	return err
}

// replacer is a storage that writes over shared objects without copying them.
type replacer interface {
	Replace(context.Context, string, *storage.Preconditions, func(runtime.Object) (runtime.Object, error)) error
}

// replacerOfAll is a replacer that writes several objects together.
type replacerOfAll interface {
	ReplaceAll(context.Context, []kernelstorage.Replacement) []error
}

// bound is a pod with a binding. It shares with the pod before, which stays as it
// is, and has times as they are stored.
func (r *bindingREST) bound(obj runtime.Object, b *corev1.Binding) (runtime.Object, error) {
	before, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("unexpected object: %#v", obj)
	}
	switch {
	case before.DeletionTimestamp != nil:
		return nil, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", before.Name)
	case before.Spec.NodeName != "":
		return nil, fmt.Errorf("pod %v is already assigned to node %q", before.Name, before.Spec.NodeName)
	case len(before.Spec.SchedulingGates) != 0:
		return nil, fmt.Errorf("pod %v has non-empty .spec.schedulingGates", before.Name)
	}
	pod := *before
	pod.Spec.NodeName = b.Target.Name
	pod.Status.NominatedNodeName = ""
	pod.Annotations = merged(pod.Annotations, b.Annotations)
	pod.Labels = merged(pod.Labels, b.Labels)
	if r.topology != nil {
		pod.Labels = merged(pod.Labels, r.topology(b.Target.Name))
	}
	pod.Status.Conditions = withCondition(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return &pod, nil
}

// merged is a new map unless from adds nothing.
func merged(into, from map[string]string) map[string]string {
	if len(from) == 0 {
		return into
	}
	out := make(map[string]string, len(into)+len(from))
	maps.Copy(out, into)
	maps.Copy(out, from)
	return out
}

// withCondition is a new list with c in it, with the present as its transition
// time unless the condition had that status already.
func withCondition(conditions []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	c.LastTransitionTime = metav1.Unix(time.Now().Unix(), 0)
	out := append(make([]corev1.PodCondition, 0, len(conditions)+1), conditions...)
	for i := range out {
		if out[i].Type != c.Type {
			continue
		}
		if out[i].Status == c.Status {
			c.LastTransitionTime = out[i].LastTransitionTime
		}
		out[i] = c
		return out
	}
	return append(out, c)
}

// legacyBindingREST is the top-level bindings resource, whose object names the
// pod by its own name.
type legacyBindingREST struct{ binding *bindingREST }

var (
	_ rest.Creater              = (*legacyBindingREST)(nil)
	_ rest.SingularNameProvider = (*legacyBindingREST)(nil)
)

func (r *legacyBindingREST) NamespaceScoped() bool   { return true }
func (r *legacyBindingREST) New() runtime.Object     { return &corev1.Binding{} }
func (r *legacyBindingREST) Destroy()                {}
func (r *legacyBindingREST) GetSingularName() string { return "binding" }

func (r *legacyBindingREST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %T", obj))
	}
	return r.binding.Create(ctx, m.GetName(), obj, createValidation, options)
}
