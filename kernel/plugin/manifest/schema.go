package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	maxSchemaBytes = 64 << 10
	maxSchemaDepth = 32
)

// ConfigSchema is the JSON schema of a plugin's configuration. In a manifest it
// is written in place, or as the path of a file of the bundle (JSON or YAML).
type ConfigSchema struct {
	// Path of the file, relative to the bundle's folder; empty: in place.
	Path string

	raw       map[string]any
	validator validation.SchemaValidator
}

// Text is the schema as JSON, for people who compare it.
func (s *ConfigSchema) Text() string {
	if s.raw == nil {
		return s.Path
	}
	text, err := json.Marshal(s.raw)
	if err != nil {
		return s.Path
	}
	return string(text)
}

// Requires reports whether a configuration must say something.
func (s *ConfigSchema) Requires() bool { return s.raw["required"] != nil }

// UnmarshalYAML takes a mapping, or the path of a file.
func (s *ConfigSchema) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		s.Path = n.Value
		return nil
	}
	return n.Decode(&s.raw)
}

// MarshalYAML writes what UnmarshalYAML read.
func (s *ConfigSchema) MarshalYAML() (any, error) {
	if s.Path != "" {
		return s.Path, nil
	}
	return s.raw, nil
}

// load reads the schema's file, if it has one, and makes the validator.
func (s *ConfigSchema) load(dir string) error {
	if s.Path != "" {
		if !filepath.IsLocal(s.Path) {
			return fmt.Errorf("%q; want a path inside the bundle's folder", s.Path)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		f, err := root.Open(s.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxSchemaBytes+1))
		if err != nil {
			return err
		}
		if len(data) > maxSchemaBytes {
			return fmt.Errorf("%s is larger than %d bytes", s.Path, maxSchemaBytes)
		}
		if err := yaml.Unmarshal(data, &s.raw); err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	if err := checkSchema("", s.raw, 0); err != nil {
		return err
	}
	data, err := json.Marshal(s.raw)
	if err != nil {
		return err
	}
	if len(data) > maxSchemaBytes {
		return fmt.Errorf("larger than %d bytes", maxSchemaBytes)
	}
	schema := &spec.Schema{}
	if err := json.Unmarshal(data, schema); err != nil {
		return err
	}
	s.validator = validation.NewSchemaValidatorFromOpenAPI(schema)
	return nil
}

// schemaWords are the keywords that are checked, or say something to people only.
// Others are refused: an author would believe that they are checked.
var schemaWords = []string{
	"$schema", "$id", "title", "description", "default", "example", "examples", "type", "format", "enum", "nullable",
	"properties", "additionalProperties", "required", "minProperties", "maxProperties",
	"items", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "not",
}

var schemaTypes = []string{"object", "array", "string", "integer", "number", "boolean", "null"}

// checkSchema walks a schema: what it says must be checkable.
func checkSchema(at string, s map[string]any, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("%s: more than %d levels deep", at, maxSchemaDepth)
	}
	where := func(word string) string { return strings.TrimPrefix(at+"."+word, ".") }
	nested := func(word string, v any) error {
		sub, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: want a schema", where(word))
		}
		return checkSchema(where(word), sub, depth+1)
	}
	var faults []error
	for _, word := range slices.Sorted(maps.Keys(s)) {
		v := s[word]
		if !slices.Contains(schemaWords, word) {
			faults = append(faults, fmt.Errorf("%s: this keyword is not checked; want one of %s", where(word), strings.Join(schemaWords, ", ")))
			continue
		}
		switch word {
		case "type":
			names, ok := v.([]any)
			if !ok {
				names = []any{v}
			}
			for _, name := range names {
				if text, _ := name.(string); !slices.Contains(schemaTypes, text) {
					faults = append(faults, fmt.Errorf("%s: %v; want one of %s", where(word), name, strings.Join(schemaTypes, ", ")))
				}
			}
		case "properties":
			sub, ok := v.(map[string]any)
			if !ok {
				faults = append(faults, fmt.Errorf("%s: want a schema a name", where(word)))
			}
			for _, name := range slices.Sorted(maps.Keys(sub)) {
				faults = append(faults, nested(word+"."+name, sub[name]))
			}
		case "additionalProperties":
			if _, ok := v.(bool); !ok {
				faults = append(faults, nested(word, v))
			}
		case "items", "not":
			faults = append(faults, nested(word, v))
		case "allOf", "anyOf", "oneOf":
			list, ok := v.([]any)
			if !ok {
				faults = append(faults, fmt.Errorf("%s: want a list of schemas", where(word)))
			}
			for i, sub := range list {
				faults = append(faults, nested(fmt.Sprintf("%s[%d]", word, i), sub))
			}
		case "pattern":
			text, _ := v.(string)
			if _, err := regexp.Compile(text); err != nil || text == "" {
				faults = append(faults, fmt.Errorf("%s: %v is not a regular expression of Go (RE2)", where(word), v))
			}
		}
	}
	return errors.Join(faults...)
}

// CheckConfig validates a plugin's configuration against its schema. An absent
// configuration is an empty one where the schema wants something.
func (e *Entry) CheckConfig(raw []byte, path *field.Path) field.ErrorList {
	if e.ConfigSchema == nil || e.ConfigSchema.validator == nil {
		return nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", "must be valid JSON")}
	}
	return validation.ValidateCustomResource(path, value, e.ConfigSchema.validator)
}
