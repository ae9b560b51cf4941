package admissionregistration

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/client-go/util/jsonpath"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
	reasons    = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge}
	patchTypes = []admissionv1.PatchType{admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch}
)

const (
	maxAuditAnnotations = 20
	// maxAnnotationExpression is in bytes, of an expression that gives an annotation.
	maxAnnotationExpression = 5 << 10
	somethingWanted         = "validations or auditAnnotations must contain at least one item"
)

// policy is what both kinds of policies have.
type policy struct {
	failure    *admissionv1.FailurePolicyType
	params     *admissionv1.ParamKind
	match      *admissionv1.MatchResources
	conditions []admissionv1.MatchCondition
	variables  []admissionv1.Variable
}

func validatingPolicy(o *admissionv1.ValidatingAdmissionPolicy) policy {
	s := &o.Spec
	return policy{s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables}
}

func mutatingPolicy(o *admissionv1.MutatingAdmissionPolicy) policy {
	s := &o.Spec
	return policy{s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables}
}

// validate checks the parts that both kinds have. c compiles their expressions; old
// is the policy before, nil in a create.
func (p policy) validate(c *plugincel.CompositedCompiler, old *policy, mutating bool, stored expressions) field.ErrorList {
	errs := requiredOneOf(specPath.Child("failurePolicy"), p.failure, failurePolicies)
	if p.params != nil {
		errs = append(errs, validateParamKind(p.params, specPath.Child("paramKind"))...)
	}
	constraints := specPath.Child("matchConstraints")
	if p.match == nil {
		errs = append(errs, field.Required(constraints, ""))
	} else {
		errs = append(errs, validateMatch(p.match, constraints)...)
		if len(p.match.ResourceRules) == 0 {
			errs = append(errs, field.Required(constraints.Child("resourceRules"), ""))
		}
		if mutating {
			errs = append(errs, validateMutatingRules(p.match, constraints)...)
		}
	}
	if old == nil || !equality.Semantic.DeepEqual(p.params, old.params) || !equality.Semantic.DeepEqual(p.conditions, old.conditions) {
		errs = append(errs, validateMatchConditions(p.conditions, p.params != nil, stored, specPath.Child("matchConditions"))...)
	}
	for i := range p.variables {
		errs = append(errs, validateVariable(c, &p.variables[i], p.params != nil, stored, specPath.Child("variables").Index(i))...)
	}
	return errs
}

// expressions are those that both kinds have.
func (p policy) expressions() expressions {
	e := expressions{}
	for _, c := range p.conditions {
		e.add(inMatchCondition, c.Expression)
	}
	return e
}

func validateParamKind(k *admissionv1.ParamKind, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("apiVersion")
	group, version, grouped := strings.Cut(k.APIVersion, "/")
	if !grouped {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(at, ""))
	case strings.Contains(version, "/"):
		errs = append(errs, field.Invalid(at, k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion))
	default:
		if group != "" {
			if words := utilvalidation.IsDNS1123Subdomain(group); len(words) > 0 {
				errs = append(errs, field.Invalid(at, group, strings.Join(words, ",")))
			}
		}
		if version == "" {
			errs = append(errs, field.Invalid(at, k.APIVersion, "version must be specified"))
		} else if words := utilvalidation.IsDNS1035Label(version); len(words) > 0 {
			errs = append(errs, field.Invalid(at, version, strings.Join(words, ",")))
		}
	}
	if k.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	} else if words := utilvalidation.IsDNS1035Label(strings.ToLower(k.Kind)); len(words) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(words, ",")))
	}
	return errs
}

// validateValidatingPolicy checks a policy; old is nil in a create.
func validateValidatingPolicy(o, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := validation.ValidateObjectMeta(&o.ObjectMeta, false, validation.NameIsDNSSubdomain, metadataPath)
	// What compiles knows variables where there are some.
	compiler, c := simple(), (*plugincel.CompositedCompiler)(nil)
	if len(o.Spec.Variables) > 0 {
		var err error
		if c, err = withVariables(); err != nil {
			return append(errs, field.InternalError(specPath, err))
		}
		compiler = c
	}
	var before *policy
	stored := expressions{}
	if old != nil {
		p := validatingPolicy(old)
		before, stored = &p, p.expressions()
		for _, v := range old.Spec.Validations {
			stored.add(inValidation, v.Expression)
			stored.add(inMessage, v.MessageExpression)
		}
		for _, a := range old.Spec.AuditAnnotations {
			stored.add(inAnnotation, a.ValueExpression)
		}
	}
	errs = append(errs, validatingPolicy(o).validate(c, before, false, stored)...)
	validations, annotations := specPath.Child("validations"), specPath.Child("auditAnnotations")
	if len(o.Spec.Validations) == 0 && len(o.Spec.AuditAnnotations) == 0 {
		return append(errs, field.Required(validations, somethingWanted), field.Required(annotations, somethingWanted))
	}
	params := o.Spec.ParamKind != nil
	for i := range o.Spec.Validations {
		errs = append(errs, validateValidation(compiler, &o.Spec.Validations[i], params, stored, validations.Index(i))...)
	}
	if len(o.Spec.AuditAnnotations) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(annotations, o.Spec.AuditAnnotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	keys := map[string]bool{}
	for i := range o.Spec.AuditAnnotations {
		a := &o.Spec.AuditAnnotations[i]
		errs = append(errs, validateAuditAnnotation(compiler, o.Name, a, params, stored, annotations.Index(i))...)
		if keys[a.Key] {
			errs = append(errs, field.Duplicate(annotations.Index(i).Child("key"), a.Key))
		}
		keys[a.Key] = true
	}
	return errs
}

func validateValidation(c plugincel.Compiler, v *admissionv1.Validation, params bool, stored expressions, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, compiled(c, &validating.ValidationCondition{Expression: v.Expression}, v.Expression,
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, stored.environment(inValidation, v.Expression), path.Child("expression"))...)
	}
	switch {
	case v.MessageExpression == "":
	case strings.TrimSpace(v.MessageExpression) == "":
		errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	default: // it may not ask who may do what
		errs = append(errs, compiled(c, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}, v.MessageExpression,
			plugincel.OptionalVariableDeclarations{HasParams: params}, stored.environment(inMessage, v.MessageExpression), path.Child("messageExpression"))...)
	}
	message := strings.TrimSpace(v.Message)
	switch {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(message, "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, optionalOneOf(path.Child("reason"), v.Reason, reasons)...)
}

func validateAuditAnnotation(c plugincel.Compiler, policy string, a *admissionv1.AuditAnnotation, params bool, stored expressions, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Invalid(path.Child("key"), a.Key, "requires metadata.name be non-empty"))
	} else {
		errs = append(errs, qualified(policy+"/"+a.Key, path.Child("key"))...)
	}
	at, text := path.Child("valueExpression"), strings.TrimSpace(a.ValueExpression)
	switch {
	case text == "":
		return append(errs, field.Required(at, "valueExpression is not specified"))
	case len(text) > maxAnnotationExpression:
		return append(errs, field.Required(at, fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression)))
	}
	return append(errs, compiled(c, &validating.AuditAnnotationCondition{ValueExpression: text}, a.ValueExpression,
		plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, stored.environment(inAnnotation, a.ValueExpression), at)...)
}

// validateValidatingStatus checks what was found about the types that expressions use.
func validateValidatingStatus(s *admissionv1.ValidatingAdmissionPolicyStatus) field.ErrorList {
	var errs field.ErrorList
	if s.TypeChecking != nil {
		for i, w := range s.TypeChecking.ExpressionWarnings {
			at := statusPath.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			ref := strings.TrimSpace(w.FieldRef)
			if ref == "" {
				errs = append(errs, field.Required(at.Child("fieldRef"), ""))
			} else if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
				errs = append(errs, field.Invalid(at.Child("fieldRef"), ref, fmt.Sprintf("invalid JSONPath: %v", err)))
			}
		}
	}
	return append(errs, metav1validation.ValidateConditions(s.Conditions, statusPath.Child("conditions"))...)
}

// validateMutatingPolicy checks a policy; old is nil in a create.
func validateMutatingPolicy(o, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := validation.ValidateObjectMeta(&o.ObjectMeta, false, validation.NameIsDNSSubdomain, metadataPath)
	c, err := withVariables()
	if err != nil {
		return append(errs, field.InternalError(specPath, err))
	}
	var before *policy
	stored := expressions{}
	if old != nil {
		p := mutatingPolicy(old)
		before, stored = &p, p.expressions()
		for _, m := range old.Spec.Mutations {
			if m.ApplyConfiguration != nil {
				stored.add(inPatch, m.ApplyConfiguration.Expression)
			}
		}
	}
	errs = append(errs, mutatingPolicy(o).validate(c, before, true, stored)...)
	mutations := specPath.Child("mutations")
	if len(o.Spec.Mutations) == 0 {
		errs = append(errs, field.Required(mutations, "mutations must contain at least one item"))
	}
	for i := range o.Spec.Mutations {
		errs = append(errs, validateMutation(c, &o.Spec.Mutations[i], o.Spec.ParamKind != nil, stored, mutations.Index(i))...)
	}
	at := specPath.Child("reinvocationPolicy")
	if o.Spec.ReinvocationPolicy == "" {
		return append(errs, field.Required(at, ""))
	}
	return append(errs, oneOf(at, o.Spec.ReinvocationPolicy, reinvocationPolicies)...)
}

// validateMutation wants the patch of the type that is named, and no other.
func validateMutation(c plugincel.Compiler, m *admissionv1.Mutation, params bool, stored expressions, path *field.Path) field.ErrorList {
	known := plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true, HasPatchTypes: true}
	compile := func(e plugincel.ExpressionAccessor, expression string, path *field.Path) field.ErrorList {
		if e.GetExpression() == "" {
			return field.ErrorList{field.Required(path, "")}
		}
		return compiled(c, e, e.GetExpression(), known, stored.environment(inPatch, expression), path)
	}
	var errs field.ErrorList
	apply, json := path.Child("applyConfiguration"), path.Child("jsonPatch")
	switch m.PatchType {
	case "":
		return field.ErrorList{field.Required(path.Child("patchType"), "")}
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(json, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, compile(&patch.JSONPatchCondition{Expression: strings.TrimSpace(m.JSONPatch.Expression)}, m.JSONPatch.Expression, json.Child("expression"))...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs, compile(&patch.ApplyConfigurationCondition{Expression: strings.TrimSpace(m.ApplyConfiguration.Expression)}, m.ApplyConfiguration.Expression, apply.Child("expression"))...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(json, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		errs = oneOf(path.Child("patchType"), m.PatchType, patchTypes)
	}
	return errs
}
