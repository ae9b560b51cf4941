package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
)

// as is a client of a user who has the rights and no others.
func as(t *testing.T, s *api.Server, name string, rules ...rbacv1.PolicyRule) kubernetes.Interface {
	t.Helper()
	admins := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).RbacV1()
	if _, err := admins.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admins.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}))
	waitFor(t, func() bool {
		_, err := c.CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
		return err == nil
	})
	return c
}

// configMaps is the right to those.
func configMaps(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: append(verbs, "list"), APIGroups: []string{""}, Resources: []string{"configmaps"}}
}

// Where the plugin is on, owners take rights on every way to write them; where it is
// not, as by default, they take none.
func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	yes := true
	owner := func(kind string, blocks *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "owner", UID: "u", BlockOwnerDeletion: blocks}}
	}
	const (
		cannotDelete = "cannot set an ownerRef on a resource you can't delete"
		cannotBlock  = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
	)
	for name, on := range map[string]bool{"enabled": true, "default": false} {
		t.Run(name, func(t *testing.T) {
			s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
				if on {
					c.EnableAdmission = []string{"OwnerReferencesPermissionEnforcement"}
				}
			})
			refused := func(what string, err error, fault string) {
				t.Helper()
				if !on {
					fault = ""
				}
				if (err == nil) != (fault == "") || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), fault)) {
					t.Errorf("enabled %t: %s: %v, want %q", on, what, err, fault)
				}
			}
			writer := as(t, s, "writer", configMaps("create", "update", "patch"), rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}})
			deleter := as(t, s, "deleter", configMaps("create", "update", "delete"))
			finalizer := as(t, s, "finalizer", configMaps("create", "update", "delete"), rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"secrets/finalizers"}, ResourceNames: []string{"owner"}})

			create := func(c kubernetes.Interface, name string, owners []metav1.OwnerReference) error {
				_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}, metav1.CreateOptions{})
				return err
			}
			refused("a new object with an owner", create(writer, "owned", owner("Secret", nil)), "")
			refused("a new object without", create(writer, "plain", nil), "")
			refused("a new object that blocks", create(writer, "blocks", owner("Secret", &yes)), cannotBlock)
			refused("a new object that blocks, with the right", create(finalizer, "may", owner("Secret", &yes)), "")
			refused("a new object that blocks another kind", create(finalizer, "node", owner("Node", &yes)), cannotBlock)
			refused("a kind that is none", create(finalizer, "none", owner("Nonesuch", &yes)), "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Nonesuch")

			patch := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"owner","uid":"u"}]}}`)
			_, err := writer.CoreV1().ConfigMaps("default").Patch(t.Context(), "plain", types.MergePatchType, patch, metav1.PatchOptions{})
			refused("a patch gives an owner", err, cannotDelete)
			_, err = writer.CoreV1().ConfigMaps("default").Patch(t.Context(), "plain", types.ApplyPatchType,
				[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"plain","ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"two","uid":"v"}]}}`), metav1.PatchOptions{FieldManager: "m"})
			refused("an apply gives an owner", err, cannotDelete)
			update := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}
			_, err = writer.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("an update takes the owner away", err, cannotDelete)
			_, err = deleter.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("who may delete takes the owner away", err, "")
			update.OwnerReferences = owner("Secret", &yes)
			_, err = deleter.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("who may delete has it block", err, cannotBlock)
			_, err = finalizer.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("who may do both has it block", err, "")

			// Ordinary creates of pods have a way of their own.
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", OwnerReferences: owner("Secret", &yes)}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			_, err = writer.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
			refused("a pod that blocks", err, cannotBlock)
		})
	}
}

// With NamespaceAutoProvision a new object makes its namespace, whoever may not make
// namespaces; a dry run, a bad name and every other request makes none.
func TestNamespaceAutoProvision(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.EnableAdmission = []string{"NamespaceAutoProvision"} })
	c := as(t, s, "writer", configMaps("get", "create", "update", "patch", "delete"))
	there := func(namespace string) bool {
		_, err := overTLS(t, s).CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		return err == nil
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "o"}}
	if _, err := c.CoreV1().ConfigMaps("made").Create(t.Context(), object, metav1.CreateOptions{}); err != nil || !there("made") {
		t.Errorf("a create: %v", err)
	}
	patch := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o"}}`)
	if _, err := c.CoreV1().ConfigMaps("applied").Patch(t.Context(), "o", types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: "m"}); err != nil || !there("applied") {
		t.Errorf("an apply: %v", err)
	}
	event := scheduledEvent("e")
	event.Namespace, event.Regarding.Namespace = "told", "told"
	if err := s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{event})[0]; err != nil || !there("told") {
		t.Errorf("an event without HTTP: %v", err)
	}
	if _, err := c.CoreV1().ConfigMaps("dry").Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsNotFound(err) || there("dry") {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := c.CoreV1().ConfigMaps("Bad_Name").Create(t.Context(), object, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `Namespace "Bad_Name" is invalid`) {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := c.CoreV1().Secrets("secret").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "o"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || there("secret") {
		t.Errorf("who may not create the object: %v", err)
	}
	if _, err := c.CoreV1().ConfigMaps("updated").Patch(t.Context(), "o", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}); !apierrors.IsNotFound(err) || there("updated") {
		t.Errorf("a patch: %v", err)
	}
	if err := c.CoreV1().ConfigMaps("deleted").Delete(t.Context(), "o", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) || there("deleted") {
		t.Errorf("a delete: %v", err)
	}
	// A namespace that goes is not made anew meanwhile.
	if err := overTLS(t, s).CoreV1().Namespaces().Delete(t.Context(), "made", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	waitFor(t, func() bool {
		_, err := c.CoreV1().ConfigMaps("made").Create(context.Background(), other, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	})
}

// With NamespaceExists nothing is written in a namespace that is not there, on no way
// that there is. What was left in one that went is not changed either.
func TestNamespaceExists(t *testing.T) {
	dir := t.TempDir()
	var left *corev1.Pod
	for _, on := range []bool{false, true} { // one after the other, over one store
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			s, _ := startWith(t, dir, func(c *api.Config) {
				c.DisableAdmission = []string{"NamespaceLifecycle", "ServiceAccount", "LimitRanger", "PodSecurity"}
				if on {
					c.EnableAdmission = []string{"NamespaceExists"}
				}
			})
			c := overTLS(t, s)
			check := func(what string, err error) {
				t.Helper()
				if on != (apierrors.IsNotFound(err) && strings.Contains(err.Error(), `namespaces "gone" not found`)) || !on && err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			name := map[bool]string{false: "before", true: "after"}[on]
			pod, err := c.CoreV1().Pods("gone").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
			check("a create of a pod", err)
			if !on {
				left = pod
			}
			event := scheduledEvent(name)
			event.Namespace, event.Regarding.Namespace = "gone", "gone"
			check("an event without HTTP", s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{event})[0])
			_, err = c.CoreV1().Pods("gone").Patch(t.Context(), left.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"on":"`+fmt.Sprint(on)+`"}}}`), metav1.PatchOptions{})
			check("a patch", err)
			condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}
			check("a condition", s.SetPodStatus(t.Context(), "gone", left.Name, left.UID, &condition, nil))
			if !on {
				return
			}
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "gone", Name: left.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
			check("a binding", s.Bind(t.Context(), binding.DeepCopy()))
			check("bindings", s.BindAll(t.Context(), []*corev1.Binding{binding.DeepCopy()}, nil)[0])
			check("a delete", c.CoreV1().Pods("gone").Delete(t.Context(), left.Name, metav1.DeleteOptions{}))
			check("a delete without HTTP", s.DeletePod(t.Context(), schedulerUser, "gone", left.Name, metav1.DeleteOptions{}))
			if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}, metav1.CreateOptions{}); err != nil {
				t.Errorf("the namespace itself: %v", err)
			}
			if _, err := c.CoreV1().ConfigMaps("gone").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "o"}}, metav1.CreateOptions{}); err != nil {
				t.Errorf("at once: %v", err)
			}
		})
	}
}

// Events are counted on each way that there is: of both groups, by patches, and those
// that the kernel writes without HTTP, all at once and alike.
func TestEventRateLimit(t *testing.T) {
	const burst, asked = 3, 500
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
		c.EnableAdmission = []string{"EventRateLimit"}
		c.EventRateLimit = []byte(fmt.Sprintf(`{"apiVersion":"eventratelimit.admission.k8s.io/v1alpha1","kind":"Configuration","limits":[{"type":"User","qps":1,"burst":%d}]}`, burst))
	})
	who := func(name string) user.Info {
		return &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup}}
	}
	core := func(name string, i int) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, i)}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}}
	}
	if _, err := overTLS(t, s).CoreV1().Events("default").Create(t.Context(), core("patched", 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(name string) []error{
		"core": each(asked, func(name string, i int) error {
			_, err := kubernetes.NewForConfigOrDie(s.ClientConfig(who(name))).CoreV1().Events("default").Create(t.Context(), core(name, i), metav1.CreateOptions{})
			return err
		}),
		"events": each(asked, func(name string, i int) error {
			_, err := kubernetes.NewForConfigOrDie(s.ClientConfig(who(name))).EventsV1().Events("default").Create(t.Context(), scheduledEvent(fmt.Sprint(name, i)), metav1.CreateOptions{})
			return err
		}),
		"patch": each(asked, func(name string, i int) error {
			_, err := kubernetes.NewForConfigOrDie(s.ClientConfig(who(name))).CoreV1().Events("default").Patch(t.Context(), "patched0", types.MergePatchType, []byte(fmt.Sprintf(`{"count":%d}`, i+1)), metav1.PatchOptions{})
			return err
		}),
		"alike": func(name string) []error {
			var events []*eventsv1.Event
			for i := range asked {
				events = append(events, scheduledEvent(fmt.Sprint(name, i)))
			}
			return s.CreateEvents(t.Context(), who(name), events)
		},
	} {
		began := time.Now()
		failures := write(name)
		most := burst + int(time.Since(began)/time.Second) + 1 // whatever it took
		passed := 0
		for _, err := range failures {
			switch {
			case err == nil:
				passed++
			case !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "limit reached on type User for key "+name):
				t.Errorf("%s: %v", name, err)
			}
		}
		if passed < burst || passed > most {
			t.Errorf("%s: %d passed, want %d to %d", name, passed, burst, most)
		}
	}
	// Others go on, and what is none is not counted.
	if _, err := kubernetes.NewForConfigOrDie(s.ClientConfig(who("other"))).CoreV1().Events("default").Create(t.Context(), core("other", 0), metav1.CreateOptions{}); err != nil {
		t.Errorf("another user: %v", err)
	}
	for i := range 2 * burst {
		if _, err := kubernetes.NewForConfigOrDie(s.ClientConfig(who("alike"))).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}, metav1.CreateOptions{}); err != nil {
			t.Errorf("no event: %v", err)
		}
	}
}

func each(n int, write func(name string, i int) error) func(name string) []error {
	return func(name string) []error {
		failures := make([]error, n)
		for i := range failures {
			failures[i] = write(name, i)
		}
		return failures
	}
}
