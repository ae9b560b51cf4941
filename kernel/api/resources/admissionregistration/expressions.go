package admissionregistration

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// place is where an expression stands.
type place int

const (
	inMatchCondition place = iota
	inValidation
	inMessage
	inAnnotation
	inPatch
)

// expressions are those that an object had before. They may use what was taken
// back since from new ones.
type expressions map[place]map[string]bool

func (e expressions) add(where place, expression string) {
	if e[where] == nil {
		e[where] = map[string]bool{}
	}
	e[where][expression] = true
}

func (e expressions) environment(where place, expression string) environment.Type {
	if e[where][expression] {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// simple compiles expressions that know no variables. It keeps nothing.
var simple = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// withVariables compiles the expressions of one policy, which may have some.
func withVariables() (*plugincel.CompositedCompiler, error) {
	return plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
}

// compiled is the fault of an expression, if it has one. shown is the text that
// the error tells.
func compiled(c plugincel.Compiler, e plugincel.ExpressionAccessor, shown string, known plugincel.OptionalVariableDeclarations, env environment.Type, path *field.Path) field.ErrorList {
	if result := c.CompileCELExpression(e, known, env); result.Error != nil {
		return field.ErrorList{fault(result.Error, shown, path)}
	}
	return nil
}

func fault(err error, shown string, path *field.Path) *field.Error {
	var of *apiservercel.Error
	if errors.As(err, &of) {
		switch of.Type {
		case apiservercel.ErrorTypeRequired:
			return field.Required(path, of.Detail)
		case apiservercel.ErrorTypeInvalid:
			return field.Invalid(path, shown, of.Detail)
		case apiservercel.ErrorTypeInternal:
			return field.InternalError(path, of)
		}
	}
	return field.InternalError(path, fmt.Errorf("unsupported error type: %w", err))
}

const maxMatchConditions = 64

// validateMatchConditions checks conditions of a webhook or, with parameters, of a policy.
func validateMatchConditions(conditions []admissionv1.MatchCondition, params bool, stored expressions, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxMatchConditions))
	}
	names := map[string]bool{}
	for i := range conditions {
		c, at := &conditions[i], path.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			errs = append(errs, compiled(simple(), &matchconditions.MatchCondition{Expression: text}, text,
				plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, stored.environment(inMatchCondition, text), at.Child("expression"))...)
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, qualified(c.Name, at.Child("name"))...)
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
	return errs
}

func qualified(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, words := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, words).WithOrigin("format=qualified-name"))
	}
	return errs
}

// validateVariable makes a variable known to the expressions after it.
func validateVariable(c *plugincel.CompositedCompiler, v *admissionv1.Variable, params bool, stored expressions, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case strings.TrimSpace(v.Name) == "":
		errs = append(errs, field.Required(path.Child("name"), "name is not specified"))
	case !isIdentifier(v.Name):
		errs = append(errs, field.Invalid(path.Child("name"), v.Name, "must be a valid CEL identifier"))
	}
	if strings.TrimSpace(v.Expression) == "" {
		return append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	}
	result := c.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression},
		plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, stored.environment(inValidation, v.Expression))
	if result.Error != nil {
		errs = append(errs, fault(result.Error, v.Expression, path.Child("expression")))
	}
	return errs
}

var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// reserved by the language.
var reserved = strings.Fields(`true false null in as break const continue else for function if import let loop package
namespace return var void while`)

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reserved, name)
}
