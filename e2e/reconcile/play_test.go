package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// judge waits until a step is done, and says what is wrong with how it ended. answers
// are refusals of the API server.
type judge func(ctx context.Context, s *scene, one step, answers state) error

// play makes the namespace of a script and its first node, and then does its steps.
func (w *world) play(ctx context.Context, of script, done judge) error {
	s := w.scene(of.name)
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: of.name}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if err := w.addNode(ctx, of.name, of.name+"-1"); err != nil {
		return err
	}
	if err := s.furnished(ctx); err != nil {
		return err
	}
	for _, one := range append([]step{{Step: begin}}, of.steps...) {
		answers := state{}
		if err := s.do(ctx, one, answers); err != nil {
			return fmt.Errorf("step %q: %w", one.Step, err)
		}
		if err := done(ctx, s, one, answers); err != nil {
			return fmt.Errorf("step %q: %w", one.Step, err)
		}
		// Times in objects have seconds: what follows is later.
		if err := pause(ctx, 1100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// begin is the name of what is there before the first step.
const begin = "a namespace and a node"

// furnished waits until pods can be made in the namespace and the node is open for them.
func (s *scene) furnished(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, errors.New("not in time"))
	defer cancel()
	for {
		got := s.render()
		_, account := got["ServiceAccount default metadata"]
		_, ca := got["ConfigMap kube-root-ca.crt metadata"]
		if account && ca && !strings.Contains(got["Node "+s.name+"-1 spec"], "taints") {
			return nil
		}
		if err := pause(ctx, tickEvery); err != nil {
			return fmt.Errorf("the namespace has no service account, or the node a taint: %v: %w", got, err)
		}
	}
}

// do does what a step says. A refusal by the API server is an answer and no error.
func (s *scene) do(ctx context.Context, one step, answers state) error {
	for _, name := range one.Nodes {
		if err := s.world.addNode(ctx, s.name, s.name+"-"+name); err != nil {
			return err
		}
	}
	for _, name := range one.Silent {
		s.world.silence(s.name + "-" + name)
	}
	answered := func(what string, err error) error {
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			s.mu.Lock()
			defer s.mu.Unlock()
			answers["Answer to "+what] = s.names.in(status.Status().Message)
			return nil
		}
		return err
	}
	for _, object := range one.Create {
		o := &unstructured.Unstructured{Object: object}
		client, err := s.client(ctx, o.GroupVersionKind(), o)
		if err == nil {
			_, err = client.Create(ctx, o, metav1.CreateOptions{})
		}
		if err := answered("create "+o.GetKind()+" "+o.GetName(), err); err != nil {
			return err
		}
		if err := s.served(ctx, o); err != nil {
			return err
		}
	}
	for _, c := range one.Patch {
		client, err := s.client(ctx, kindOf(c.Kind), nil)
		if err == nil {
			var subresources []string
			if c.Subresource != "" {
				subresources = append(subresources, c.Subresource)
			}
			_, err = client.Patch(ctx, s.of(c.Name), types.MergePatchType, []byte(compact(c.With)), metav1.PatchOptions{}, subresources...)
		}
		if err := answered("patch "+c.Kind+" "+c.Name, err); err != nil {
			return err
		}
	}
	for _, r := range one.Delete {
		client, err := s.client(ctx, kindOf(r.Kind), nil)
		if err == nil {
			options := metav1.DeleteOptions{GracePeriodSeconds: r.Grace}
			if r.Propagation != "" {
				options.PropagationPolicy = new(metav1.DeletionPropagation(r.Propagation))
			}
			err = client.Delete(ctx, s.of(r.Name), options)
		}
		if err == nil && r.Force {
			_, err = client.Patch(ctx, s.of(r.Name), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		if err := answered("delete "+r.Kind+" "+r.Name, err); err != nil {
			return err
		}
	}
	for _, name := range one.Evict {
		err := s.world.client.PolicyV1().Evictions(s.name).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: s.of(name), Namespace: s.name}})
		if err := answered("evict "+name, err); err != nil {
			return err
		}
	}
	for _, c := range one.Pods {
		if err := s.act(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the objects that a definition is of are served: until then their
// controllers meet errors that no later state takes back. Other objects are not waited for.
func (s *scene) served(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, errors.New("it is not served"))
	defer cancel()
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, one := range versions {
		version, _, _ := unstructured.NestedString(one.(map[string]any), "name")
		objects := s.world.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural}).Namespace(s.name)
		for {
			_, err := objects.List(ctx, metav1.ListOptions{})
			if err == nil {
				break
			}
			if cause := pause(ctx, tickEvery); cause != nil {
				return fmt.Errorf("definition %s: %w: %w", o.GetName(), cause, err)
			}
		}
	}
	return nil
}

// kinds are those that scripts change by their name alone.
var kinds = map[string]schema.GroupVersion{
	"Deployment": {Group: "apps", Version: "v1"}, "ReplicaSet": {Group: "apps", Version: "v1"}, "StatefulSet": {Group: "apps", Version: "v1"},
	"DaemonSet": {Group: "apps", Version: "v1"}, "ControllerRevision": {Group: "apps", Version: "v1"}, "Job": {Group: "batch", Version: "v1"}, "CronJob": {Group: "batch", Version: "v1"},
	"HorizontalPodAutoscaler": {Group: "autoscaling", Version: "v2"}, "PodDisruptionBudget": {Group: "policy", Version: "v1"},
	"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1"}, "PodMetrics": {Group: "metrics.k8s.io", Version: "v1beta1"},
}

func kindOf(name string) schema.GroupVersionKind {
	if gv, ok := kinds[name]; ok {
		return gv.WithKind(name)
	}
	return schema.GroupVersionKind{Version: "v1", Kind: name}
}

// client is that of a kind, in the namespace of an object, or else of the script.
func (s *scene) client(ctx context.Context, kind schema.GroupVersionKind, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	m, err := s.world.resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return s.world.dynamic.Resource(m.Resource), nil
	}
	ns := s.name
	if o != nil && o.GetNamespace() != "" {
		ns = o.GetNamespace()
	}
	return s.world.dynamic.Resource(m.Resource).Namespace(ns), nil
}
