package rbac

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func indexOf(objects ...any) *Index {
	x := NewIndex()
	for _, obj := range objects {
		x.replace(nil, obj)
	}
	return x
}

func defaultsIndex() *Index {
	x := NewIndex()
	defaults := Defaults()
	for i := range defaults.ClusterRoles {
		x.replace(nil, &defaults.ClusterRoles[i])
	}
	for i := range defaults.ClusterRoleBindings {
		x.replace(nil, &defaults.ClusterRoleBindings[i])
	}
	for i := range defaults.Roles {
		x.replace(nil, &defaults.Roles[i])
	}
	for i := range defaults.RoleBindings {
		x.replace(nil, &defaults.RoleBindings[i])
	}
	return x
}

func who(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: groups}
}

func resource(u user.Info, verb, group, res, namespace, name string) authorizer.AttributesRecord {
	main, sub, _ := strings.Cut(res, "/")
	return authorizer.AttributesRecord{
		User: u, Verb: verb, APIGroup: group, Resource: main, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true,
	}
}

func TestAuthorize(t *testing.T) {
	x := indexOf(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{on(reading, "", "pods", "*/scale")}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "paths"}, Rules: []rbacv1.PolicyRule{paths("/healthz", "/api/*")}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}, Rules: []rbacv1.PolicyRule{named(on(verbs("get"), "", "configmaps"), "a")}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "readers"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}, Subjects: []rbacv1.Subject{subjectGroup("readers"), subjectUser("ann")}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "paths"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "paths"}, Subjects: []rbacv1.Subject{subjectUser("ann")}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "gone"}, Subjects: []rbacv1.Subject{subjectUser("bob")}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "one"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "app"}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "down"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}, Subjects: []rbacv1.Subject{subjectUser("cid")}},
	)
	path := func(u user.Info, verb, path string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: u, Verb: verb, Path: path}
	}
	app := who("system:serviceaccount:ns:app")
	for _, tt := range []struct {
		name    string
		request authorizer.AttributesRecord
		allow   bool
		reason  string
	}{
		{"by user", resource(who("ann"), "get", "", "pods", "x", "p"), true, `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "ann"`},
		{"by group", resource(who("dan", "readers"), "list", "", "pods", "", ""), true, `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "readers"`},
		{"other verb", resource(who("ann"), "create", "", "pods", "x", "p"), false, ""},
		{"other group", resource(who("ann"), "get", "apps", "pods", "x", "p"), false, ""},
		{"subresource is not the resource", resource(who("ann"), "get", "", "pods/log", "x", "p"), false, ""},
		{"any resource's subresource", resource(who("ann"), "get", "", "things/scale", "x", "p"), true, `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "ann"`},
		{"service account of the binding's namespace", resource(app, "get", "", "configmaps", "ns", "a"), true, `RBAC: allowed by RoleBinding "sa/ns" of Role "one" to ServiceAccount "app/ns"`},
		{"other name", resource(app, "get", "", "configmaps", "ns", "b"), false, ""},
		{"other namespace", resource(app, "get", "", "configmaps", "x", "a"), false, ""},
		{"cluster role within the namespace", resource(who("cid"), "get", "", "pods", "ns", "p"), true, `RBAC: allowed by RoleBinding "down/ns" of ClusterRole "reader" to User "cid"`},
		{"cluster role outside of it", resource(who("cid"), "get", "", "pods", "", "p"), false, ""},
		{"role missing", resource(who("bob"), "get", "", "pods", "", ""), false, `RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{"path", path(who("ann"), "get", "/healthz"), true, `RBAC: allowed by ClusterRoleBinding "paths" of ClusterRole "paths" to User "ann"`},
		{"path below", path(who("ann"), "get", "/api/v1"), true, `RBAC: allowed by ClusterRoleBinding "paths" of ClusterRole "paths" to User "ann"`},
		{"other path", path(who("ann"), "get", "/metrics"), false, ""},
		{"masters", resource(who("root", "system:masters"), "delete", "x", "y", "z", ""), true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decision, reason, err := New(x).Authorize(t.Context(), tt.request)
			if err != nil || (decision == authorizer.DecisionAllow) != tt.allow || reason != tt.reason {
				t.Errorf("decision %v, reason %q, error %v", decision, reason, err)
			}
			if !tt.allow && decision != authorizer.DecisionNoOpinion {
				t.Errorf("decision %v, want no opinion", decision)
			}
		})
	}
}

// What a member of system:masters may do is told once, though the binding of
// cluster-admin tells it too.
func TestRulesFor(t *testing.T) {
	admins := rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admins"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin"}, Subjects: []rbacv1.Subject{subjectGroup("system:masters")}}
	x := indexOf(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Rules: append(fullAuthority(), paths("/healthz"))},
		&admins,
	)
	for _, tt := range []struct {
		name             string
		user             user.Info
		resources, paths int
	}{
		{"bound", who("root", "system:masters"), 1, 2},
		{"nobody", who("joe"), 0, 0},
	} {
		resources, paths, incomplete, err := New(x).RulesFor(t.Context(), tt.user, "ns")
		if len(resources) != tt.resources || len(paths) != tt.paths || incomplete || err != nil {
			t.Errorf("%s: resources %v, paths %v, %v, %v", tt.name, resources, paths, incomplete, err)
		}
	}
	x.replace(&admins, nil)
	if resources, paths, _, err := New(x).RulesFor(t.Context(), who("root", "system:masters"), "ns"); len(resources) != 1 || len(paths) != 1 || err != nil {
		t.Errorf("unbound: resources %v, paths %v, %v", resources, paths, err)
	}
}

func TestIndexFollowsChanges(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{on(reading, "", "pods")}}
	binding := bound("reader", subjectUser("ann"), subjectUser("bob"), subjectUser("ann"))
	x := indexOf(role, &binding)
	may := func(name string) bool {
		decision, _, _ := New(x).Authorize(t.Context(), resource(who(name), "get", "", "pods", "", "p"))
		return decision == authorizer.DecisionAllow
	}
	if !may("ann") || !may("bob") {
		t.Fatal("not bound")
	}
	changed := bound("reader", subjectUser("bob"))
	x.replace(&binding, &changed)
	if may("ann") || !may("bob") {
		t.Error("update of the binding not seen")
	}
	narrowed := role.DeepCopy()
	narrowed.Rules = nil
	x.replace(role, narrowed)
	if may("bob") {
		t.Error("update of the role not seen")
	}
	x.replace(&changed, nil)
	if len(x.bindings) != 0 {
		t.Errorf("left over: %v", x.bindings)
	}
}

func TestDefaultAccess(t *testing.T) {
	x := defaultsIndex()
	node := who("system:node:n1", "system:nodes", "system:authenticated")
	scheduler := who("system:kube-scheduler", "system:authenticated")
	someone := who("ann", "system:authenticated")
	anonymous := who("system:anonymous", "system:unauthenticated")
	get := func(u user.Info, path string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: u, Verb: "get", Path: path}
	}
	for _, tt := range []struct {
		name    string
		request authorizer.AttributesRecord
		allow   bool
	}{
		{"anonymous health", get(anonymous, "/readyz"), true},
		{"anonymous version", get(anonymous, "/version"), true},
		{"anonymous discovery", get(anonymous, "/apis"), false},
		{"anonymous metrics", get(anonymous, "/metrics"), false},
		{"anonymous pods", resource(anonymous, "list", "", "pods", "", ""), false},
		{"discovery", get(someone, "/apis/apps/v1"), true},
		{"may I", resource(someone, "create", "authorization.k8s.io", "selfsubjectaccessreviews", "", ""), true},
		{"who am I", resource(someone, "create", "authentication.k8s.io", "selfsubjectreviews", "", ""), true},
		{"secrets of others", resource(someone, "get", "", "secrets", "ns", "s"), false},
		{"nodes have their share from another authorizer", resource(node, "patch", "", "nodes/status", "", "n1"), false},
		{"node secrets", resource(node, "watch", "", "secrets", "ns", ""), false},
		{"node writes secrets", resource(node, "update", "", "secrets", "ns", "s"), false},
		{"node binds", resource(node, "create", "", "pods/binding", "ns", "p"), false},
		{"scheduler binds", resource(scheduler, "create", "", "pods/binding", "ns", "p"), true},
		{"scheduler lock", resource(scheduler, "update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"), true},
		{"scheduler secrets", resource(scheduler, "get", "", "secrets", "ns", "s"), false},
		{"token discovery", get(who("system:serviceaccount:ns:app", "system:serviceaccounts"), "/openid/v1/jwks"), true},
		{"server to node", resource(who("kube-apiserver-kubelet-client"), "create", "", "nodes/proxy", "", "n1"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decision, reason, err := New(x).Authorize(t.Context(), tt.request)
			if err != nil || (decision == authorizer.DecisionAllow) != tt.allow {
				t.Errorf("decision %v, reason %q, error %v", decision, reason, err)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	x := defaultsIndex()
	for _, obj := range []any{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Rules: []rbacv1.PolicyRule{on(reading, "", "pods")}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "granter"}, Rules: []rbacv1.PolicyRule{
			named(on(verbs("bind"), rbacv1.GroupName, "clusterroles"), "cluster-admin"),
			on(verbs("escalate"), rbacv1.GroupName, "roles"),
		}},
	} {
		x.replace(nil, obj)
	}
	holder, granter := bound("pods", subjectUser("ann")), bound("granter", subjectUser("bob"))
	x.replace(nil, &holder)
	x.replace(nil, &granter)
	live := fake.NewClientset(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}, Rules: []rbacv1.PolicyRule{on(verbs("get"), "", "pods")}})
	guard := NewGuard(x, New(x), live.RbacV1())
	held := []rbacv1.PolicyRule{on(verbs("get"), "", "pods")}
	more := []rbacv1.PolicyRule{on(verbs("get", "delete", "create"), "", "pods")}
	newRole := func(rules []rbacv1.PolicyRule) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Rules: rules}
	}
	gathering := aggregated("all", "")
	for _, tt := range []struct {
		name     string
		user     user.Info
		obj, old runtime.Object
		wantErr  string
	}{
		{name: "role within own rights", user: who("ann"), obj: newRole(held)},
		{name: "role beyond", user: who("ann", "g"), obj: newRole(more), wantErr: "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"ann\" (groups=[\"g\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"create\"]}"},
		{name: "may escalate", user: who("bob"), obj: newRole(more)},
		{name: "masters", user: who("root", "system:masters"), obj: newRole(more)},
		{name: "only an owner added", user: who("ann"), obj: func() runtime.Object {
			r := newRole(more)
			r.OwnerReferences = []metav1.OwnerReference{{Name: "o"}}
			return r
		}(), old: newRole(more)},
		{name: "update beyond", user: who("ann"), obj: newRole(more), old: newRole(held), wantErr: "not currently held"},
		{name: "cluster role beyond", user: who("ann"), obj: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Rules: more}, wantErr: "clusterroles.rbac.authorization.k8s.io \"c\" is forbidden"},
		{name: "aggregation", user: who("ann"), obj: &gathering, wantErr: "must have cluster-admin privileges to use the aggregationRule"},
		{name: "bind within own rights", user: who("ann"), obj: &holder},
		{name: "bind a role not in the index", user: who("ann"), obj: func() runtime.Object { b := bound("fresh", subjectUser("x")); return &b }()},
		{name: "bind beyond", user: who("ann"), obj: func() runtime.Object { b := bound("cluster-admin", subjectUser("ann")); return &b }(), wantErr: "clusterrolebindings.rbac.authorization.k8s.io \"cluster-admin\" is forbidden"},
		{name: "may bind", user: who("bob"), obj: func() runtime.Object { b := bound("cluster-admin", subjectUser("bob")); return &b }()},
		{name: "bind nothing", user: who("ann"), obj: func() runtime.Object { b := bound("absent", subjectUser("ann")); return &b }(), wantErr: "clusterroles.rbac.authorization.k8s.io \"absent\" not found"},
		{name: "role binding beyond", user: who("ann"), obj: func() runtime.Object {
			return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "granter"}}
		}(), wantErr: "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := request.WithNamespace(request.WithUser(t.Context(), tt.user), "ns")
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, APIGroup: rbacv1.GroupName, Resource: "roles", Namespace: "ns"})
			err := guard.Check(ctx, tt.obj, tt.old)
			if tt.wantErr == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("error %v\nwant  %s", err, tt.wantErr)
			}
		})
	}
}

// Issue: a start after the first writes nothing; what was taken away comes
// back, what was added stays, what is protected is left alone.
func TestBootstrap(t *testing.T) {
	ctx := t.Context()
	client := fake.NewClientset()
	writes := func() (n int) {
		for _, action := range client.Actions() {
			if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
				n++
			}
		}
		client.ClearActions()
		return n
	}
	run := func() int {
		t.Helper()
		written, err := Bootstrap(ctx, client)
		if err != nil {
			t.Fatal(err)
		}
		n := writes()
		if named := len(written.ClusterRoles) + len(written.ClusterRoleBindings) + len(written.Roles) + len(written.RoleBindings); named > n || (named == 0) != (n == 0) {
			t.Errorf("%d objects are said to be written, %d writes", named, n)
		}
		return n
	}
	defaults := Defaults()
	if n, want := run(), len(defaults.ClusterRoles)+len(defaults.ClusterRoleBindings)+len(defaults.Roles)+len(defaults.RoleBindings); n < want {
		t.Fatalf("%d writes at the first start, want at least %d", n, want)
	}
	if n := run(); n != 0 {
		t.Fatalf("%d writes at the second start", n)
	}
	// An earlier release bound all nodes to the role as a whole.
	wide := bound(roleNode, subjectGroup(user.NodesGroup))
	mark(&wide)
	if _, err := client.RbacV1().ClusterRoleBindings().Update(ctx, &wide, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	run()
	if b, err := client.RbacV1().ClusterRoleBindings().Get(ctx, roleNode, metav1.GetOptions{}); err != nil || len(b.Subjects) != 0 {
		t.Fatalf("%v %v", b, err)
	}
	client.ClearActions()
	roles := client.RbacV1().ClusterRoles()
	role, err := roles.Get(ctx, "system:kube-dns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	extra := on(verbs("get"), "", "configmaps")
	role.Rules = []rbacv1.PolicyRule{extra}
	protected, err := roles.Get(ctx, "system:heapster", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	protected.Rules = nil
	protected.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	for _, r := range []*rbacv1.ClusterRole{role, protected} {
		if _, err := roles.Update(ctx, r, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.RbacV1().ClusterRoleBindings().Delete(ctx, "system:discovery", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	writes()
	if n := run(); n != 2 {
		t.Errorf("%d writes to mend two objects", n)
	}
	if role, err = roles.Get(ctx, "system:kube-dns", metav1.GetOptions{}); err != nil || len(role.Rules) < 2 ||
		!slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, extra) }) {
		t.Errorf("rules %v, error %v", role.Rules, err)
	}
	if protected, err = roles.Get(ctx, "system:heapster", metav1.GetOptions{}); err != nil || protected.Rules != nil {
		t.Errorf("protected role changed: %v, error %v", protected.Rules, err)
	}
}

// A policy is held when each of its objects has come, bindings for each of their subjects.
func TestHolds(t *testing.T) {
	p := Policy{
		ClusterRoles:        []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{bound("a", subjectUser("ann"), subjectGroup("readers")), bound("nobody")},
		Roles:               []rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}},
		RoleBindings:        []rbacv1.RoleBinding{boundIn("ns", "a", "a", subjectUser("ann"))},
	}
	x := NewIndex()
	narrow := bound("a", subjectUser("ann"))
	for _, obj := range []any{&p.ClusterRoles[0], &p.Roles[0], &p.RoleBindings[0], &narrow} {
		if x.Holds(p) {
			t.Errorf("held before %T came", obj)
		}
		x.replace(nil, obj)
	}
	if x.Holds(p) {
		t.Error("held without one of the subjects")
	}
	x.replace(&narrow, &p.ClusterRoleBindings[0])
	if !x.Holds(p) {
		t.Error("not held")
	}
}

func TestAggregate(t *testing.T) {
	client := fake.NewClientset()
	if _, err := Bootstrap(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	a, err := NewAggregator(client.RbacV1(), factory.Rbac().V1().ClusterRoles(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	factory.Start(ctx.Done())
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	}()
	covers := func(role string, want rbacv1.PolicyRule) wait.ConditionWithContextFunc {
		return func(ctx context.Context) (bool, error) {
			got, err := client.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(got.Rules, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, want) }), nil
		}
	}
	eventually := func(what string, condition wait.ConditionWithContextFunc) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 2*time.Minute, true, condition); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	// view flows into edit, and edit into admin.
	for _, role := range []string{"view", "edit", "admin"} {
		eventually(role, covers(role, inOrder(viewRules())[0]))
	}
	custom := clusterRole("crd-viewer", on(reading, "example.com", "things"))
	custom.Labels = map[string]string{aggregateTo + "view": "true"}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, &custom, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("custom rule", covers("admin", custom.Rules[0]))
}

func TestPluginPolicy(t *testing.T) {
	rules := []rbacv1.PolicyRule{on(verbs("get", "list"), "", "pods")}
	role, binding := PluginPolicy("demo", rules)
	rules[0].Verbs[0] = "changed"
	if role.Name != "pintle:plugin:demo" || binding.RoleRef.Name != role.Name || binding.Subjects[0].Name != "system:pintle:plugin:demo" {
		t.Errorf("%+v %+v", role, binding)
	}
	if role.Rules[0].Verbs[0] == "changed" {
		t.Error("rules shared with the manifest")
	}
}

func BenchmarkAuthorize(b *testing.B) {
	x := defaultsIndex()
	for i := range 1000 {
		name := fmt.Sprintf("role-%d", i)
		role, binding := clusterRole(name, on(reading, "", "pods")), bound(name, subjectUser(fmt.Sprintf("user-%d", i)))
		x.replace(nil, &role)
		x.replace(nil, &binding)
	}
	a := New(x)
	request := resource(who("system:kube-scheduler", "system:authenticated"), "create", "", "pods/binding", "ns", "p")
	b.ReportAllocs()
	for b.Loop() {
		if decision, _, _ := a.Authorize(context.Background(), request); decision != authorizer.DecisionAllow {
			b.Fatal(decision)
		}
	}
}

// The roles of controllers are for the service accounts of kube-system alone: one
// of their name elsewhere, a user who calls himself so, and the neighbours in
// kube-system have nothing of them.
func TestControllersAccess(t *testing.T) {
	a := New(defaultsIndex())
	for i := range controllerRoles() {
		name := strings.TrimPrefix(controllerRoles()[i].Name, controllerPrefix)
		rule := controllerRoles()[i].Rules[0]
		request := func(who user.Info) authorizer.AttributesRecord {
			r := resource(who, rule.Verbs[0], rule.APIGroups[0], rule.Resources[0], "ns", "x")
			if len(rule.ResourceNames) > 0 {
				r.Name = rule.ResourceNames[0]
			}
			return r
		}
		account := func(namespace, name string) user.Info {
			return who("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace, user.AllAuthenticated)
		}
		for _, tt := range []struct {
			who   user.Info
			allow bool
		}{
			{account(metav1.NamespaceSystem, name), true},
			{account(metav1.NamespaceDefault, name), false},
			{account(metav1.NamespacePublic, name), false},
			{account(metav1.NamespaceSystem, "default"), false},
			{who(name, user.AllAuthenticated), false},
			{who(controllerPrefix+name, user.AllAuthenticated), false},
			{who("ann", "system:serviceaccounts:kube-system", controllerPrefix+name), false},
		} {
			decision, _, err := a.Authorize(t.Context(), request(tt.who))
			if err != nil || (decision == authorizer.DecisionAllow) != tt.allow {
				t.Errorf("%s of %s by %s: %v, %v", rule.Verbs[0], rule.Resources[0], tt.who.GetName(), decision, err)
			}
		}
	}
}

// After a first start nothing is looked at closely; any change to a default object
// is, also one by who wants the start to overlook it.
func TestUnchanged(t *testing.T) {
	client := fake.NewClientset()
	if _, err := Bootstrap(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	have, err := listExisting(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	for i := range want.ClusterRoles {
		role := &want.ClusterRoles[i]
		got := have.clusterRoles[role.Name]
		if !sameClusterRole(got, role) || sameClusterRole(nil, role) {
			t.Errorf("cluster role %s", role.Name)
		}
		for what, change := range map[string]func(*rbacv1.ClusterRole){
			"annotation": func(o *rbacv1.ClusterRole) { o.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false" },
			"label":      func(o *rbacv1.ClusterRole) { o.Labels = nil },
			"rules": func(o *rbacv1.ClusterRole) {
				o.AggregationRule, o.Rules = nil, append(slices.Clone(o.Rules[min(1, len(o.Rules)):]), on(verbs("*"), "*", "*"))
			},
		} {
			changed := got.DeepCopy()
			if change(changed); sameClusterRole(changed, role) {
				t.Errorf("cluster role %s with other %s", role.Name, what)
			}
		}
	}
	for i := range want.ClusterRoleBindings {
		binding := &want.ClusterRoleBindings[i]
		got := have.clusterBindings[binding.Name]
		if !sameClusterBinding(got, binding) || sameClusterBinding(nil, binding) {
			t.Errorf("cluster role binding %s", binding.Name)
		}
		for what, change := range map[string]func(*rbacv1.ClusterRoleBinding){
			"role":     func(o *rbacv1.ClusterRoleBinding) { o.RoleRef.Name = "x" },
			"subjects": func(o *rbacv1.ClusterRoleBinding) { o.Subjects = append(o.Subjects, subjectUser("ann")) },
		} {
			changed := got.DeepCopy()
			if change(changed); sameClusterBinding(changed, binding) {
				t.Errorf("cluster role binding %s with other %s", binding.Name, what)
			}
		}
	}
	for i := range want.Roles {
		role := &want.Roles[i]
		got := have.roles[objectKey{role.Namespace, role.Name}]
		if !sameRole(got, role) || sameRole(nil, role) || sameRole(&rbacv1.Role{ObjectMeta: got.ObjectMeta}, role) {
			t.Errorf("role %s", role.Name)
		}
	}
	for i := range want.RoleBindings {
		binding := &want.RoleBindings[i]
		got := have.bindings[objectKey{binding.Namespace, binding.Name}]
		if !sameBinding(got, binding) || sameBinding(nil, binding) || sameBinding(&rbacv1.RoleBinding{ObjectMeta: got.ObjectMeta, RoleRef: got.RoleRef}, binding) {
			t.Errorf("role binding %s", binding.Name)
		}
	}
}
