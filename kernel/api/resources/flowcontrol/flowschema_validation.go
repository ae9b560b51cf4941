package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// mandatory finds the object of that name which no cluster is without.
func mandatory[T object](list []T, name string) (found T, ok bool) {
	for _, o := range list {
		if o.GetName() == name {
			return o, true
		}
	}
	return found, false
}

func validateFlowSchema(o *flowcontrolv1.FlowSchema) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, metadataPath)
	errs = append(errs, validateFlowSchemaSpec(o.Name, &o.Spec)...)
	if m, ok := mandatory(bootstrap.MandatoryFlowSchemas, o.Name); ok && !apiequality.Semantic.DeepEqual(o.Spec, m.Spec) {
		errs = append(errs, field.Invalid(specPath, o.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", o.Name)))
	}
	return append(errs, validateFlowSchemaStatus(&o.Status)...)
}

func validateFlowSchemaStatus(s *flowcontrolv1.FlowSchemaStatus) field.ErrorList {
	return validateConditions(s.Conditions, func(c flowcontrolv1.FlowSchemaCondition) string { return string(c.Type) })
}

func validateFlowSchemaSpec(name string, s *flowcontrolv1.FlowSchemaSpec) field.ErrorList {
	var errs field.ErrorList
	precedence := specPath.Child("matchingPrecedence")
	if s.MatchingPrecedence <= 0 {
		errs = append(errs, field.Invalid(precedence, s.MatchingPrecedence, "must be a positive value"))
	}
	if s.MatchingPrecedence > flowcontrolv1.FlowSchemaMaxMatchingPrecedence {
		errs = append(errs, field.Invalid(precedence, s.MatchingPrecedence, fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	}
	if s.MatchingPrecedence == 1 && name != flowcontrolv1.FlowSchemaNameExempt {
		errs = append(errs, field.Invalid(precedence, s.MatchingPrecedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if d := s.DistinguisherMethod; d != nil {
		methods := []flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}
		if !slices.Contains(methods, d.Type) {
			errs = append(errs, field.NotSupported(specPath.Child("distinguisherMethod", "type"), d, methods))
		}
	}
	level := specPath.Child("priorityLevelConfiguration", "name")
	if s.PriorityLevelConfiguration.Name == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		for _, msg := range apivalidation.NameIsDNSSubdomain(s.PriorityLevelConfiguration.Name, false) {
			errs = append(errs, field.Invalid(level, s.PriorityLevelConfiguration.Name, msg))
		}
	}
	for i := range s.Rules {
		errs = append(errs, validateRules(&s.Rules[i], specPath.Child("rules").Index(i))...)
	}
	return errs
}

func validateRules(r *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResourceRule(&r.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, validateNonResourceRule(&r.NonResourceRules[i], path.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

func validateSubject(s *flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	user, group, account := path.Child("user"), path.Child("group"), path.Child("serviceAccount")
	named := func(there bool, name func() string, path *field.Path, required string) {
		switch {
		case !there:
			errs = append(errs, field.Required(path, required))
		case name() == "":
			errs = append(errs, field.Required(path.Child("name"), ""))
		}
	}
	forbid := func(there bool, path *field.Path, name, kind string) {
		if there {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("%s is forbidden when subject kind is not '%s'", name, kind)))
		}
	}
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		errs = append(errs, validateAccount(s.ServiceAccount, account)...)
		forbid(s.User != nil, user, "user", "User")
		forbid(s.Group != nil, group, "group", "Group")
	case flowcontrolv1.SubjectKindUser:
		named(s.User != nil, func() string { return s.User.Name }, user, "user is required when subject kind is 'User'")
		forbid(s.ServiceAccount != nil, account, "serviceAccount", "ServiceAccount")
		forbid(s.Group != nil, group, "group", "Group")
	case flowcontrolv1.SubjectKindGroup:
		named(s.Group != nil, func() string { return s.Group.Name }, group, "group is required when subject kind is 'Group'")
		forbid(s.ServiceAccount != nil, account, "serviceAccount", "ServiceAccount")
		forbid(s.User != nil, user, "user", "User")
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind, []flowcontrolv1.SubjectKind{
			flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser}))
	}
	return errs
}

func validateAccount(s *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(path, "serviceAccount is required when subject kind is 'ServiceAccount'")}
	}
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else if s.Name != flowcontrolv1.NameAll {
		for _, msg := range apivalidation.ValidateServiceAccountName(s.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), s.Name, msg))
		}
	}
	if s.Namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	} else {
		for _, msg := range apivalidation.ValidateNamespaceName(s.Namespace, false) {
			errs = append(errs, field.Invalid(path.Child("namespace"), s.Namespace, msg))
		}
	}
	return errs
}

// verbs are those a rule may name.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func validateVerbs(list []string, path *field.Path) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(path, "verbs must contain at least one value")}
	case slices.Contains(list, "*"):
		if len(list) > 1 {
			return field.ErrorList{field.Invalid(path, list, "if '*' is present, must not specify other verbs")}
		}
	case slices.ContainsFunc(list, func(v string) bool { return !slices.Contains(verbs, v) }):
		return field.ErrorList{field.NotSupported(path, list, verbs)}
	}
	return nil
}

func validateResourceRule(r *flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	several := func(list []string, name, none, mixed string) {
		switch {
		case len(list) == 0:
			errs = append(errs, field.Required(path.Child(name), none))
		case len(list) > 1 && slices.Contains(list, "*"):
			errs = append(errs, field.Invalid(path.Child(name), list, mixed))
		}
	}
	several(r.APIGroups, "apiGroups", "resource rules must supply at least one api group", "if '*' is present, must not specify other api groups")
	several(r.Resources, "resources", "resource rules must supply at least one resource", "if '*' is present, must not specify other resources")
	namespaces := path.Child("namespaces")
	switch {
	case len(r.Namespaces) == 0 && !r.ClusterScope:
		errs = append(errs, field.Required(namespaces, "resource rules that are not cluster scoped must supply at least one namespace"))
	case slices.Contains(r.Namespaces, "*"):
		if len(r.Namespaces) > 1 {
			errs = append(errs, field.Invalid(namespaces, r.Namespaces, "if '*' is present, must not specify other namespaces"))
		}
	default:
		for i, ns := range r.Namespaces {
			for _, msg := range apivalidation.ValidateNamespaceName(ns, false) {
				errs = append(errs, field.Invalid(namespaces.Index(i), ns, "each member of this list must be '*' or a DNS-1123 label; "+msg))
			}
		}
	}
	return errs
}

func validateNonResourceRule(r *flowcontrolv1.NonResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	urls := path.Child("nonResourceURLs")
	switch {
	case len(r.NonResourceURLs) == 0:
		errs = append(errs, field.Required(urls, "nonResourceURLs must contain at least one value"))
	case slices.Contains(r.NonResourceURLs, "*"):
		if len(r.NonResourceURLs) > 1 {
			errs = append(errs, field.Invalid(urls, r.NonResourceURLs, "if '*' is present, must not specify other non-resource URLs"))
		}
	default:
		for i, url := range r.NonResourceURLs {
			if fault := urlFault(url); fault != "" {
				errs = append(errs, field.Invalid(urls.Index(i), url, fault))
			}
		}
	}
	return errs
}

// urlFault says what is wrong with a path that requests are compared with.
func urlFault(path string) string {
	stars := strings.Count(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case path == "/":
		return ""
	case path[0] != '/':
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}
