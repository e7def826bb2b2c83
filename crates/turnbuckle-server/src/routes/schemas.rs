//! Messages and events in the description, as the core's types say them.

use crate::dto::TurnEnd;
use std::collections::BTreeMap;
use turnbuckle_core::event::Event;
use turnbuckle_core::message::Message;
use turnbuckle_core::outcome::Outcome;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// What sessions store and streams carry, and all that it is made of.
pub(super) fn schemas() -> Schemas {
    let mut all = Vec::new();
    add::<Message>(&mut all);
    add::<Event>(&mut all);
    add::<Outcome>(&mut all);
    // Frames of a stream are described nowhere else.
    add::<TurnEnd>(&mut all);
    all.into_iter().map(|(name, schema)| (name, as_written(schema))).collect()
}

/// A type with all that it is made of.
pub(super) fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
    all.push((T::name().into_owned(), T::schema()));
    T::schemas(all);
}

/// The schema without the nulls that are read and never written: what may be left out is left out.
fn as_written(schema: RefOr<Schema>) -> RefOr<Schema> {
    let RefOr::T(schema) = schema else { return schema };
    let each = |items: Vec<RefOr<Schema>>| items.into_iter().map(as_written).collect();
    RefOr::T(match schema {
        Schema::Object(mut object) => {
            for (name, property) in &mut object.properties {
                if !object.required.contains(name) {
                    *property = without_null(std::mem::take(property));
                }
            }
            Schema::Object(object)
        }
        Schema::OneOf(mut one) => {
            one.items = each(one.items);
            Schema::OneOf(one)
        }
        Schema::AllOf(mut all) => {
            all.items = each(all.items);
            Schema::AllOf(all)
        }
        other => other,
    })
}

fn without_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    let RefOr::T(schema) = schema else { return schema };
    RefOr::T(match schema {
        Schema::Object(mut object) => {
            object.schema_type = one_type(object.schema_type);
            Schema::Object(object)
        }
        Schema::Array(mut array) => {
            array.schema_type = one_type(array.schema_type);
            Schema::Array(array)
        }
        Schema::OneOf(mut one) => {
            one.items.retain(|item| !is_null(item));
            match <[_; 1]>::try_from(std::mem::take(&mut one.items)) {
                Ok([RefOr::Ref(mut only)]) => {
                    only.description = one.description.unwrap_or_default();
                    return RefOr::Ref(only);
                }
                Ok([RefOr::T(only)]) => only,
                Err(several) => {
                    one.items = several;
                    Schema::OneOf(one)
                }
            }
        }
        other => other,
    })
}

fn one_type(types: SchemaType) -> SchemaType {
    let SchemaType::Array(mut types) = types else { return types };
    types.retain(|kind| *kind != Type::Null);
    match <[Type; 1]>::try_from(types) {
        Ok([only]) => SchemaType::Type(only),
        Err(several) => SchemaType::Array(several),
    }
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    let null = SchemaType::Type(Type::Null);
    matches!(schema, RefOr::T(Schema::Object(Object { schema_type, .. })) if *schema_type == null)
}

#[cfg(test)]
#[path = "schemas_tests.rs"]
mod tests;
