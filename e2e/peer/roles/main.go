package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	data, err := recorded()
	if err == nil {
		err = os.WriteFile(*out, data, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "roles:", err)
		os.Exit(1)
	}
}

// policy is what the file holds, each list in the order of the names.
type policy struct {
	ClusterRoles        []rbacv1.ClusterRole        `json:"clusterRoles"`
	ClusterRoleBindings []rbacv1.ClusterRoleBinding `json:"clusterRoleBindings"`
	Roles               []rbacv1.Role               `json:"roles"`
	RoleBindings        []rbacv1.RoleBinding        `json:"roleBindings"`
}

func recorded() ([]byte, error) {
	p := policy{
		ClusterRoles:        slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()),
		ClusterRoleBindings: slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()),
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		p.Roles = append(p.Roles, roles...)
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		p.RoleBindings = append(p.RoleBindings, bindings...)
	}
	byName(p.ClusterRoles, func(o *rbacv1.ClusterRole) string { return o.Name })
	byName(p.ClusterRoleBindings, func(o *rbacv1.ClusterRoleBinding) string { return o.Name })
	byName(p.Roles, func(o *rbacv1.Role) string { return o.Namespace + "/" + o.Name })
	byName(p.RoleBindings, func(o *rbacv1.RoleBinding) string { return o.Namespace + "/" + o.Name })
	data, err := json.MarshalIndent(p, "", " ")
	return append(data, '\n'), err
}

func byName[T any](list []T, name func(*T) string) {
	slices.SortFunc(list, func(a, b T) int {
		switch x, y := name(&a), name(&b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
