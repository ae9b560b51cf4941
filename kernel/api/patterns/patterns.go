package patterns

import (
	"reflect"
	"regexp"

	restful "github.com/emicklei/go-restful/v3"
)

// nothing is what every route's expression is then. It matches no text.
var nothing = regexp.MustCompile(`[^\x00-\x{10FFFF}]`)

// LetGo replaces the expressions of all routes that a container has, and returns how many
// there were. The container must route by restful.CurlyRouter, and serve nothing yet.
// go-restful has no function for it: they are found by their names, and stay where a version
// of it has other ones (a test tells).
func LetGo(c *restful.Container) (replaced int) {
	for _, service := range c.RegisteredWebServices() {
		routes := service.Routes()
		for i := range routes {
			if matcher := matcherOf(&routes[i]); matcher.CanSet() && !matcher.IsNil() {
				matcher.Set(reflect.ValueOf(nothing))
				replaced++
			}
		}
	}
	return replaced
}

// matcherOf is where a route has its expression; the zero Value where it is not found.
func matcherOf(route *restful.Route) reflect.Value {
	path := reflect.ValueOf(route).Elem().FieldByName("pathExpr")
	if path.Kind() != reflect.Pointer || path.IsNil() || path.Type().Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	// Of a field that is not exported nothing can be set; this is the same memory.
	matcher := reflect.NewAt(path.Type().Elem(), path.UnsafePointer()).Elem().FieldByName("Matcher")
	if !matcher.IsValid() || matcher.Type() != reflect.TypeFor[*regexp.Regexp]() {
		return reflect.Value{}
	}
	return matcher
}
