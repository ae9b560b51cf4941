package resources

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func controllerRevisionKind() Kind {
	gvk := appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
	doc := appsv1.ControllerRevision{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "controllerrevisions", Singular: "controllerrevision",
		New:     func() runtime.Object { return &appsv1.ControllerRevision{} },
		NewList: func() runtime.Object { return &appsv1.ControllerRevisionList{} },
		Strategy: &rules[*appsv1.ControllerRevision]{
			base: base{gvk: gvk, namespaced: true},
			validate: func(o *appsv1.ControllerRevision) field.ErrorList {
				return append(validateControllerRevision(o), validateRevisionData(revisionData(o), field.NewPath("data"))...)
			},
			validateUpdate: func(o, old *appsv1.ControllerRevision) field.ErrorList {
				errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				errs = append(errs, validateControllerRevision(o)...)
				return append(errs, apivalidation.ValidateImmutableField(o.Data, old.Data, field.NewPath("data"))...)
			},
		},
		Columns: cols(nameColumn(), stringColumn("Controller", "Controller of the object"),
			stringColumn("Revision", doc["revision"]), ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*appsv1.ControllerRevision)
			owner := "<none>"
			if ref := metav1.GetControllerOf(o); ref != nil {
				gv, err := schema.ParseGroupVersion(ref.APIVersion)
				if err != nil {
					return nil, err
				}
				owner = ref.Name
				if kind := gv.WithKind(ref.Kind).GroupKind(); !kind.Empty() {
					owner = strings.ToLower(kind.String()) + "/" + ref.Name
				}
			}
			return []any{o.Name, owner, o.Revision, ageCell(o.CreationTimestamp)}, nil
		},
	}
}

func validateControllerRevision(o *appsv1.ControllerRevision) field.ErrorList {
	errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	return append(errs, apivalidation.ValidateNonnegativeField(o.Revision, field.NewPath("revision"))...)
}

// revisionData is what the revision holds, however the request brought it.
func revisionData(o *appsv1.ControllerRevision) []byte {
	if o.Data.Raw == nil && o.Data.Object != nil {
		if raw, err := json.Marshal(o.Data.Object); err == nil {
			return raw
		}
	}
	return o.Data.Raw
}

func validateRevisionData(raw []byte, path *field.Path) field.ErrorList {
	if raw == nil {
		return field.ErrorList{field.Required(path, "data is mandatory")}
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data: %v", err))}
	}
	if v == nil {
		return field.ErrorList{field.Required(path, "data is mandatory")}
	}
	if _, ok := v.(map[string]any); !ok {
		return field.ErrorList{field.Required(path, "data must be a valid JSON object")}
	}
	return nil
}
