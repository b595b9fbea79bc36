"""Functions that TiDB has, with how many arguments each takes, and calls that TiDB refuses.

Source: upstream tidb `pkg/expression/builtin.go` (funcs), `pkg/parser/parser.y` (FunctionCallKeyword and the like),
`pkg/parser/misc.go` (btFuncTokenMap).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ticdc_bridge.schemas.ddl.parser.calls import Call
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal

SYNTAX_ERROR: Final = 1064
_MANY: Final = 1 << 20


def _counts(table: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Names by "least", "least-most" or "least+" → by name the least and the most."""
    found = dict[str, tuple[int, int]]()
    for count, names in table.items():
        least, _, most = count.rstrip("+").partition("-")
        upper = _MANY if count.endswith("+") else int(most or least)
        found.update(dict.fromkeys(names.split(), (int(least), upper)))
    return found


_PLAIN: Final = _counts({
    "0": """pi connection_id database schema found_rows user version row_count session_user system_user uuid uuid_short
        current_resource_group release_all_locks tidb_row_checksum tidb_version tidb_is_ddl_owner""",
    "0+": "json_object json_array grouping",
    "0-1": "rand unix_timestamp last_insert_id",
    "1": """isnull abs acos asin ceil ceiling cos cot crc32 degrees exp floor ln log2 log10 radians sign sin sqrt tan
        date day dayname dayofmonth dayofweek dayofyear from_days hour microsecond minute month monthname quarter
        sec_to_time second time time_to_sec to_days to_seconds weekday weekofyear year last_day tidb_parse_tso
        tidb_parse_tso_logical ascii bin bit_length char_length character_length from_base64 hex lcase length load_file
        lower ltrim oct octet_length ord quote reverse rtrim space to_base64 upper ucase unhex charset coercibility
        collation format_bytes format_nano_time sleep any_value inet_aton inet_ntoa inet6_aton inet6_ntoa is_free_lock
        is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_used_lock is_uuid vitess_hash tidb_shard release_lock bitneg
        not istrue istrue_with_null isfalse unaryminus bit_count compress md5 password random_bytes sha1 sha sm3
        uncompress uncompressed_length validate_password_strength json_type json_unquote json_valid json_pretty
        json_quote json_storage_free json_storage_size json_depth vec_dims vec_l2_norm vec_from_text vec_as_text
        tidb_decode_key tidb_mvcc_info tidb_decode_plan tidb_decode_binary_plan tidb_encode_sql_digest""",
    "1+": "coalesce concat",
    "1-2": """atan log round from_unixtime timestamp week yearweek uuid_to_bin bin_to_uuid json_keys json_length
        tidb_decode_sql_digests""",
    "2": """atan2 pow power truncate addtime date_format datediff makedate period_add period_diff str_to_date subtime
        time_format timediff find_in_set instr left repeat right strcmp benchmark ifnull nullif name_const get_lock
        decode encode sha2 json_overlaps json_memberof json_schema_valid vec_l1_distance vec_l2_distance
        vec_negative_inner_product vec_cosine_distance tidb_bounded_staleness ge le eq ne lt gt nulleq plus minus div
        mul intdiv bitand leftshift rightshift bitor bitxor""",
    "2+": """greatest least interval concat_ws elt field make_set char_func json_extract json_remove json_merge
        json_merge_patch json_merge_preserve""",
    "2-3": "format locate regexp_like aes_decrypt aes_encrypt json_contains",
    "2-5": "regexp_substr",
    "2-6": "regexp_instr",
    "3": "conv convert_tz maketime lpad rpad replace substring_index if",
    "3+": """json_set json_insert json_replace json_contains_path json_array_append json_array_insert json_search
        tidb_encode_record_key""",
    "3-5": "export_set",
    "3-6": "regexp_replace",
    "4": "insert insert_func",
    "4+": "tidb_encode_index_key",
})  # fmt: skip
"""Functions that are called like any other."""
_OWN_GRAMMAR: Final = _counts({
    "0": "curdate current_date utc_date current_user current_role tidb_current_tso",
    "0-1": "now curtime current_time current_timestamp localtime localtimestamp utc_time utc_timestamp sysdate",
    "1": """cast extract position trim nextval lastval weight_string avg bit_and bit_or bit_xor max min sum std stddev
        stddev_pop stddev_samp var_pop var_samp variance json_arrayagg""",
    "1+": "char count group_concat approx_count_distinct row values json_sum_crc32",
    "1-2": "convert",
    "1-3": "substring substr mid",
    "2": "mod adddate subdate date_add date_sub get_format setval json_objectagg approx_percentile",
    "3": "timestampadd timestampdiff translate",
})  # fmt: skip
"""Functions that the grammar names: what stands in their parentheses otherwise is an error of syntax."""
_NEWER: Final = frozenset("""
    uuid_v4 uuid_v7 uuid_version uuid_timestamp soundex mask_full mask_partial mask_null mask_date embed_text
    fts_match_word fts_match_prefix fts_match_phrase match_against tidb_decode_base64_key max_count min_count
""".split())  # fmt: skip
"""Of some versions only."""
# With a blank before the parenthesis these are no names of the grammar, and no functions (IGNORE_SPACE aside).
_CLOSE: Final = frozenset("""
    bit_and bit_or bit_xor count approx_count_distinct approx_percentile group_concat max min std stddev stddev_pop
    stddev_samp sum variance var_pop var_samp
""".split())  # fmt: skip


def of_calls(found: Iterable[Call], unknown: Callable[[Call], Refusal], *, spaces: bool = True) -> Iterator[Refusal]:
    """Calls of what is no function, and with a number of arguments that a function does not take.

    unknown: the error for the former. spaces: the sql_mode has IGNORE_SPACE, or TiDB wrote the text.
    """
    for call in found:
        plain, own = _PLAIN.get(call.name), _OWN_GRAMMAR.get(call.name)
        least, most = plain or own or (0, _MANY)
        if not call.close and not spaces and call.name in _CLOSE:
            yield unknown(call)
        elif call.name in _NEWER:
            continue
        elif not plain and not own:
            yield unknown(call)
        elif not least <= call.arguments <= most and plain:
            yield Refusal(1582, f"Incorrect parameter count in the call to native function '{call.name}'")
        elif not least <= call.arguments <= most:
            yield Refusal(SYNTAX_ERROR, f"{call.name.upper()} has other arguments in TiDB's grammar")


def no_function(call: Call, db: str) -> Refusal:
    return Refusal(1305, f"FUNCTION {db}{'.' if db else ''}{call.name} does not exist")
