package api_test

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
)

func matching(operation admissionregistrationv1.OperationType, resources ...string) *admissionregistrationv1.MatchResources {
	rule := ruleOf(resources...)
	rule.Operations = []admissionregistrationv1.OperationType{operation}
	return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}}
}

func validatingPolicy(name string, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func validatingBinding(name string, ref *admissionregistrationv1.ParamRef, actions ...admissionregistrationv1.ValidationAction) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ParamRef: ref, ValidationActions: actions}}
}

func bind(t *testing.T, c kubernetes.Interface, p *admissionregistrationv1.ValidatingAdmissionPolicy, b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	if _, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// refusing waits until do is refused in words, and returns the error.
func refusing(t *testing.T, words string, do func() error) (err error) {
	t.Helper()
	waitFor(t, func() bool {
		err = do()
		return err != nil && strings.Contains(err.Error(), words)
	})
	return err
}

// A policy refuses by parameters, variables and messages in CEL; another only warns;
// one whose expressions cost too much refuses what it is about, and nothing else.
func TestValidatingPolicies(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	warned, cfg := &warnings{}, must(kubeconfig(s))
	cfg.WarningHandler = warned
	c := kubernetes.NewForConfigOrDie(cfg)
	deny, forbidden := admissionregistrationv1.DenyAction, metav1.StatusReasonForbidden
	must(c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Data: map[string]string{"image": "good/"}}, metav1.CreateOptions{}))
	bind(t, c, validatingPolicy("images.example.com", admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, MatchConstraints: matching("CREATE", "pods"),
		Variables: []admissionregistrationv1.Variable{{Name: "bad", Expression: "object.spec.containers.filter(c, !c.image.startsWith(params.data.image)).map(c, c.image)"}},
		Validations: []admissionregistrationv1.Validation{{Expression: "variables.bad.size() == 0", Reason: &forbidden,
			MessageExpression: "'images of others: ' + variables.bad.join(', ') + ' in ' + namespaceObject.metadata.name"}},
	}), validatingBinding("images.example.com", &admissionregistrationv1.ParamRef{Name: "limits", Namespace: "default", ParameterNotFoundAction: &deny}, admissionregistrationv1.Deny, admissionregistrationv1.Audit))
	create := func(name string) error {
		_, err := c.CoreV1().Pods("default").Create(ctx, pod(name), metav1.CreateOptions{})
		return err
	}
	n := 0
	err := refusing(t, "images of others", func() error { n++; return create(fmt.Sprintf("p%d", n)) })
	want := "ValidatingAdmissionPolicy 'images.example.com' with binding 'images.example.com' denied request: images of others: registry.example/bench:1 in default"
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("refused: %v, want %s", err, want)
	}
	// Its parameters change: a watch tells.
	must(c.CoreV1().ConfigMaps("default").Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Data: map[string]string{"image": "registry.example/"}}, metav1.UpdateOptions{}))
	waitFor(t, func() bool { n++; return create(fmt.Sprintf("p%d", n)) == nil })
	// No parameters: refused, by the binding.
	if err := c.CoreV1().ConfigMaps("default").Delete(ctx, "limits", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refusing(t, "no params found for policy binding", func() error { n++; return create(fmt.Sprintf("p%d", n)) })
	if err := c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "images.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { n++; return create(fmt.Sprintf("p%d", n)) == nil })

	// The scheduler's bindings, which pass no handler, are subject to policies too.
	bind(t, c, validatingPolicy("nodes", admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matching("CREATE", "pods/binding"),
		Validations: []admissionregistrationv1.Validation{{Expression: "object.target.name != 'n1'", Message: "not there"}}}),
		validatingBinding("nodes", nil, admissionregistrationv1.Deny))
	refusing(t, "not there", func() error {
		n++
		name := fmt.Sprintf("p%d", n)
		if err := create(name); err != nil {
			return err
		}
		return s.Bind(ctx, binding(name))
	})

	bind(t, c, validatingPolicy("warns", admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matching("CREATE", "secrets"),
		Validations: []admissionregistrationv1.Validation{{Expression: "has(object.metadata.labels)", Message: "labels are nice"}}}),
		validatingBinding("warns", nil, admissionregistrationv1.Warn))
	waitFor(t, func() bool {
		if _, err := c.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(warned.all(), "\n"), "labels are nice")
	})

	// The square of the square of a list: the budget ends it.
	list := "[" + strings.Repeat("1,", 99) + "1]"
	costly := list + ".all(a, " + list + ".all(b, " + list + ".all(c, " + list + ".all(d, a + b + c + d > 0))))"
	bind(t, c, validatingPolicy("costly", admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matching("CREATE", "configmaps"),
		Validations: []admissionregistrationv1.Validation{{Expression: costly}}}), validatingBinding("costly", nil, admissionregistrationv1.Deny))
	refusing(t, "cost", func() error {
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c"}}, metav1.CreateOptions{})
		return err
	})
	if err := create("last"); err != nil {
		t.Errorf("a pod beside a costly policy: %v", err)
	}
}

// Types of expressions are checked, and what is found stands in the status.
func TestPolicyTypeChecking(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for name, expression := range map[string]string{"right": "object.spec.replicas > 1", "wrong": "object.spec.replicas > '1' && object.spec.nothing == 1"} {
		m := matching("CREATE", "deployments")
		m.ResourceRules[0].APIGroups, m.ResourceRules[0].APIVersions = []string{"apps"}, []string{"v1"}
		must(c.Create(t.Context(), validatingPolicy(name, admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: m,
			Validations: []admissionregistrationv1.Validation{{Expression: expression}}}), metav1.CreateOptions{}))
	}
	status := map[string]admissionregistrationv1.ValidatingAdmissionPolicyStatus{}
	waitFor(t, func() bool {
		for _, name := range []string{"right", "wrong"} {
			p := must(c.Get(t.Context(), name, metav1.GetOptions{}))
			if p.Status.ObservedGeneration != p.Generation {
				return false
			}
			status[name] = p.Status
		}
		return true
	})
	if n := status["right"].TypeChecking; n == nil || len(n.ExpressionWarnings) != 0 {
		t.Errorf("right: %+v", n)
	}
	w := status["wrong"].TypeChecking
	if w == nil || len(w.ExpressionWarnings) != 1 || w.ExpressionWarnings[0].FieldRef != "spec.validations[0].expression" ||
		!strings.Contains(w.ExpressionWarnings[0].Warning, "undefined field 'nothing'") {
		t.Errorf("wrong: %+v", w)
	}
}

// Who may not read parameters reads none by a policy.
func TestPolicyParameterAccess(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	must(c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "author"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{admissionregistrationv1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}},
	}}, metav1.CreateOptions{}))
	must(c.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "author"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "author"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "author"}}}, metav1.CreateOptions{}))
	as := kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: "author"}))
	allow := admissionregistrationv1.AllowAction
	policy := func(name, kind string) *admissionregistrationv1.ValidatingAdmissionPolicy {
		return validatingPolicy(name, admissionregistrationv1.ValidatingAdmissionPolicySpec{ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: kind},
			MatchConstraints: matching("CREATE", "pods"), Validations: []admissionregistrationv1.Validation{{Expression: "true"}}})
	}
	policies, bindings := as.AdmissionregistrationV1().ValidatingAdmissionPolicies(), as.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	waitFor(t, func() bool {
		_, err := policies.Create(ctx, policy("maps", "ConfigMap"), metav1.CreateOptions{})
		return err == nil
	})
	if _, err := policies.Create(ctx, policy("secrets", "Secret"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), `spec.paramKind: Forbidden: user`) || !strings.Contains(err.Error(), `must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`) {
		t.Errorf("a policy over secrets: %v", err)
	}
	must(c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy("secrets", "Secret"), metav1.CreateOptions{}))
	ref := &admissionregistrationv1.ParamRef{Name: "x", Namespace: "kube-system", ParameterNotFoundAction: &allow}
	for name, want := range map[string]string{
		"maps": "", "secrets": `does not have "get" permission on the object referenced by paramRef`,
		"none": `unable to get policy none to determine minimum required permissions`,
	} {
		_, err := bindings.Create(ctx, validatingBinding(name, ref, admissionregistrationv1.Deny), metav1.CreateOptions{})
		if want == "" && err != nil || want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.paramRef: Forbidden: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("binding of %s: %v; want %q", name, err, want)
		}
	}
	// Neither does a change of what is there help.
	p := must(policies.Get(ctx, "maps", metav1.GetOptions{}))
	p.Spec.ParamKind.Kind = "Secret"
	if _, err := policies.Update(ctx, p, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a policy that becomes one over secrets: %v", err)
	}
}

// A policy changes objects by configurations and by patches, once or again.
func TestMutatingPolicies(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	v1 := c.AdmissionregistrationV1()
	must(v1.MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "sidecar"}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: matching("CREATE", "pods"), ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "not-yet", Expression: "!object.spec.containers.exists(c, c.name == 'side')"}},
		Mutations: []admissionregistrationv1.Mutation{
			{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
				Expression: "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'side:1'}]}}"}},
			{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{
				Expression: "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/changed'), value: request.userInfo.username}]"}},
		},
	}}, metav1.CreateOptions{}))
	must(v1.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "sidecar"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "sidecar"}}, metav1.CreateOptions{}))
	n := 0
	var got *corev1.Pod
	waitFor(t, func() bool {
		n++
		var err error
		got, err = c.CoreV1().Pods("default").Create(ctx, pod(fmt.Sprintf("p%d", n)), metav1.CreateOptions{})
		return err == nil && len(got.Spec.Containers) > 1
	})
	if len(got.Spec.Containers) != 2 || got.Labels["example.com/changed"] != "kubernetes-admin" || got.Labels["app"] != "bench" {
		t.Errorf("pod %v %+v", got.Labels, got.Spec.Containers)
	}
	for _, container := range got.Spec.Containers {
		if container.TerminationMessagePath == "" || len(container.VolumeMounts) != 1 {
			t.Errorf("container %+v", container)
		}
	}
	if again := must(c.CoreV1().Pods("default").Get(ctx, got.Name, metav1.GetOptions{})); len(again.Spec.Containers) != 2 || again.TypeMeta != got.TypeMeta {
		t.Errorf("stored %+v", again)
	}
}
